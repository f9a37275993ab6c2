// What ranks do for each other in a step: gradients summed over all of them, agreement on whether
// the sums are finite and, where each keeps the optimiser's state of its own parameters only, the
// weights that others updated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
  // Throws Error on a device whose ranks cannot talk.
  RankExchange(const TrainConfig& config, const StepGraph& gradients, Store& store);

  // Whether this rank makes the parameter's update.
  bool owns(const std::string& parameter) const;
  const Owners& owners() const { return owners_; }

  void sum_gradients();
  // One rank's bad step is everyone's.
  void agree(uint64_t* bad_step) const;
  void gather_weights();

  MemoryUse memory() const;

 private:
  Store& store_;
  Owners owners_;
  std::vector<std::string> histories_;
  std::unique_ptr<Program> sums_, gathers_;  // the second where there are owners
};

// Finds its share of several pieces of work, numbered from 0: every world-th.
bool is_own_work(int64_t number);

}  // namespace sigma1
