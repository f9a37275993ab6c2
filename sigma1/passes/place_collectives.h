// Where ranks meet: marked outputs of a graph become their sums over all ranks, or what the rank
// that owns them has.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

struct CollectiveOptions {
  int64_t world = 1;
  std::string format = "fp32";  // of sums on their way
  // Bytes that travel together: enough that a message's start costs little, and few enough that
  // the memory it needs is small beside a model's and that the first can leave early.
  int64_t bucket_bytes = int64_t{32} << 20;
};

// Every marked output becomes its sum over the ranks; with owners, one for each output in their
// order, in the owner only. Outputs keep their names and storage. Before or after lowering.
void sum_outputs(Graph& graph, const CollectiveOptions& options,
                 std::span<const int64_t> owners = {});

// Every marked output becomes what it is in its owner.
void gather_outputs(Graph& graph, const CollectiveOptions& options,
                    std::span<const int64_t> owners);

// A rank for each of these sizes, so that all have about the same: the largest first, each to the
// rank that has least.
std::vector<int64_t> balanced_owners(std::span<const int64_t> sizes, int64_t world);

}  // namespace sigma1
