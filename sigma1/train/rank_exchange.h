// What ranks do for each other in a step: gradients summed over all of them, agreement on whether
// the sums are finite and, where each keeps the optimiser's state of its own parameters only, the
// weights that others updated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "sigma1/runtime/program.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {

// By parameter; empty where every rank keeps everything.
using Owners = std::map<std::string, int64_t>;
Owners owners_of(const TrainConfig& config, const Graph& model);

// Parameters that come from their owners as copies: those of which the gradients' graph, whose
// copies these are, reads nothing else. Of others a rank makes the copies itself.
std::set<std::string> gathered_as_copies(const TrainConfig& config, const Graph& gradients,
                                         std::span<const WeightCopy> copies);

// Gradients to their sums over config.world ranks, by the parameters of a model's graph; and what
// a step needs of the weights to what their owners have.
StepGraph gradient_sum_graph(const TrainConfig& config, const Graph& model);
StepGraph weight_gather_graph(const TrainConfig& config, const Graph& gradients,
                              std::span<const WeightCopy> copies);

class RankExchange {
 public:
  RankExchange(const TrainConfig& config, const StepGraph& gradients,
               std::span<const WeightCopy> copies, Store& store);

  // Whether this rank makes the parameter's update.
  bool owns(const std::string& parameter) const;
  const Owners& owners() const { return owners_; }

  // Runs the program of the gradients and sums them over the ranks: a bucket goes on its way as
  // soon as all its gradients are there, in the same order everywhere.
  void sum_gradients(Program& gradients);
  // One rank's bad step is everyone's.
  void agree(uint64_t* bad_step) const;
  void gather_weights();
  // Of those that come as copies, the parameters themselves.
  void gather_whole_weights();
  const std::set<std::string>& as_copies() const { return as_copies_; }

  MemoryUse memory() const;

 private:
  void find_buckets(const StepGraph& gradients, const Graph& sums);
  void share_largest(std::span<uint32_t> words) const;

  Store& store_;
  Owners owners_;
  std::set<std::string> as_copies_;
  std::vector<std::string> histories_;
  // A bucket is a call of the program of sums. Which one an output of the gradients' graph is in,
  // and how many there are in each.
  std::map<std::pair<const Node*, size_t>, size_t> bucket_of_;
  std::vector<int64_t> bucket_sizes_;
  std::optional<DeviceBytes> room_;  // for small numbers of all ranks
  std::unique_ptr<Program> sums_;
  // Where there are owners: of what a step needs, of other parameters, and copies made here.
  std::unique_ptr<Program> gathers_, whole_gathers_, own_copies_;
};

// Finds its share of several pieces of work, numbered from 0: every world-th.
bool is_own_work(int64_t number);

}  // namespace sigma1
