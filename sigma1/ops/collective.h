// What ranks that train one model together say to each other, as ops, so that a graph shows how
// much it is. Each takes any number of tensors: one message for a bucket of small ones. Attributes:
// world, the number of ranks; format, what sums travel in; owners, the rank of each tensor.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

// xᵢ → its sum over the ranks, in fp32 and in the order of ranks, in each of them.
extern const OpDef all_reduce_op;
// xᵢ → its sum in the rank that owns it; in others what it was.
extern const OpDef reduce_scatter_op;
// xᵢ → what it is in the rank that owns it, as it is stored.
extern const OpDef all_gather_op;

std::vector<Value> all_reduce(const std::vector<Value>& tensors, int64_t world,
                              const std::string& format);
std::vector<Value> reduce_scatter(const std::vector<Value>& tensors, int64_t world,
                                  const std::string& format, const std::vector<int64_t>& owners);
std::vector<Value> all_gather(const std::vector<Value>& tensors, int64_t world,
                              const std::vector<int64_t>& owners);

bool is_collective(const OpDef& op);

}  // namespace sigma1
