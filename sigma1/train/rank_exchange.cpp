#include "sigma1/train/rank_exchange.h"

#include <algorithm>

#include "sigma1/base/communicator.h"
#include "sigma1/base/error.h"
#include "sigma1/passes/place_collectives.h"

namespace sigma1 {
namespace {

CollectiveOptions options_of(const TrainConfig& config) {
  return {.world = config.world, .format = config.reduce};
}

// For each parameter a tensor of the store that is read and written.
StepGraph stored_tensors(const Graph& model, const std::string& format,
                         const std::function<std::string(const std::string&)>& name_of) {
  StepGraph step{std::make_shared<Graph>(), {}};
  for (Value parameter : model.parameters()) {
    std::string name = name_of(model.node(parameter.node).name);
    Value value = step.graph->input(name, parameter.type(), false);
    step.graph->node(value.node).storage = {storage_cast(format)};
    step.graph->mark_output(name, value);
    step.stored[name] = name;
  }
  return step;
}

// In the order of the model's parameters.
std::vector<int64_t> list_of(const Owners& owners, const Graph& model) {
  std::vector<int64_t> list;
  if (owners.empty()) return list;
  for (Value parameter : model.parameters()) {
    list.push_back(owners.at(model.node(parameter.node).name));
  }
  return list;
}

}  // namespace

Owners owners_of(const TrainConfig& config, const Graph& model) {
  Owners owners;
  if (config.shard != "optimiser" || config.world == 1) return owners;
  std::vector<int64_t> sizes;
  for (Value parameter : model.parameters()) sizes.push_back(parameter.type().count());
  std::vector<int64_t> list = balanced_owners(sizes, config.world);
  for (size_t i = 0; i < list.size(); ++i) {
    owners[model.node(model.parameters()[i].node).name] = list[i];
  }
  return owners;
}

StepGraph gradient_sum_graph(const TrainConfig& config, const Graph& model) {
  StepGraph step = stored_tensors(model, config.resolved_precision().gradients, gradient_name);
  sum_outputs(*step.graph, options_of(config), list_of(owners_of(config, model), model));
  return step;
}

StepGraph weight_gather_graph(const TrainConfig& config, const Graph& model) {
  StepGraph step = stored_tensors(model, config.resolved_precision().weights,
                                  [](const std::string& name) { return name; });
  gather_outputs(*step.graph, options_of(config), list_of(owners_of(config, model), model));
  return step;
}

RankExchange::RankExchange(const TrainConfig& config, const StepGraph& gradients, Store& store)
    : store_(store), owners_(owners_of(config, *gradients.graph)) {
  if (&store.device() != &cpu_device()) {
    throw Error("device: expected cpu for {} ranks, got {}", config.world, store.device().name());
  }
  StepGraph sums = gradient_sum_graph(config, *gradients.graph);
  sums_ = std::make_unique<Program>(sums.graph, store, sums.stored);
  if (!owners_.empty()) {
    StepGraph gathers = weight_gather_graph(config, *gradients.graph);
    gathers_ = std::make_unique<Program>(gathers.graph, store, gathers.stored);
  }
  for (const auto& [output, name] : gradients.stored) {
    if (name.ends_with("/amax_history")) histories_.push_back(name);
  }
}

bool RankExchange::owns(const std::string& parameter) const {
  return owners_.empty() || owners_.at(parameter) == ranks().rank();
}

void RankExchange::sum_gradients() {
  sums_->launch();
  // A rank has seen its own batches only; all must cast alike.
  for (const std::string& name : histories_) {
    std::vector<float> largest = store_.read(name);
    for (float& each : largest) {
      each = static_cast<float>(std::ranges::max(gather_numbers(ranks(), each)));
    }
    store_.write(name, largest);
  }
}

void RankExchange::agree(uint64_t* bad_step) const {
  *bad_step = static_cast<uint64_t>(
      std::ranges::max(gather_numbers(ranks(), static_cast<double>(*bad_step))));
}

void RankExchange::gather_weights() {
  if (gathers_) gathers_->launch();
}

MemoryUse RankExchange::memory() const {
  MemoryUse all = sums_->memory();
  if (gathers_) all.workspace += gathers_->memory().workspace;
  return all;
}

bool is_own_work(int64_t number) { return number % ranks().size() == ranks().rank(); }

}  // namespace sigma1
