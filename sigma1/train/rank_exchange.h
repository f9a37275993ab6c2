// What ranks do for each other in a step: gradients summed over all of them, agreement on whether
// the sums are finite and, where each keeps the optimiser's state of its own parameters only, the
// weights that others updated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sigma1/runtime/program.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {

// By parameter; empty where every rank keeps everything.
using Owners = std::map<std::string, int64_t>;
Owners owners_of(const TrainConfig& config, const Graph& model);

// Gradients to their sums over config.world ranks, and weights to what their owners have; by the
// parameters of a model's graph.
StepGraph gradient_sum_graph(const TrainConfig& config, const Graph& model);
StepGraph weight_gather_graph(const TrainConfig& config, const Graph& model);

class RankExchange {
 public:
  RankExchange(const TrainConfig& config, const StepGraph& gradients, Store& store);

  // Whether this rank makes the parameter's update.
  bool owns(const std::string& parameter) const;
  const Owners& owners() const { return owners_; }

  // Runs the program of the gradients and sums them over the ranks: a bucket goes on its way as
  // soon as all its gradients are there, in the same order everywhere.
  void sum_gradients(Program& gradients);
  // One rank's bad step is everyone's.
  void agree(uint64_t* bad_step) const;
  void gather_weights();

  MemoryUse memory() const;

 private:
  void find_buckets(const StepGraph& gradients, const Graph& sums);
  void share_largest(std::span<uint32_t> words) const;

  Store& store_;
  Owners owners_;
  std::vector<std::string> histories_;
  // A bucket is a call of the program of sums. Which one an output of the gradients' graph is in,
  // and how many there are in each.
  std::map<std::pair<const Node*, size_t>, size_t> bucket_of_;
  std::vector<int64_t> bucket_sizes_;
  std::optional<DeviceBytes> room_;          // for small numbers of all ranks
  std::unique_ptr<Program> sums_, gathers_;  // the second where there are owners
};

// Finds its share of several pieces of work, numbered from 0: every world-th.
bool is_own_work(int64_t number);

}  // namespace sigma1
