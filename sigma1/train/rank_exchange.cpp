#include "sigma1/train/rank_exchange.h"

#include <algorithm>
#include <set>

#include "sigma1/base/communicator.h"
#include "sigma1/base/error.h"
#include "sigma1/passes/place_collectives.h"

namespace sigma1 {
namespace {

CollectiveOptions options_of(const TrainConfig& config) {
  return {.world = config.world,
          .format = config.reduce,
          .bucket_bytes = static_cast<int64_t>(config.bucket * 0x1p20)};
}

// Backward computes the gradients of a model's end first; those of vectors, which a GPU computes
// together, last. In reverse, as buckets are sent from the last on.
std::vector<Value> in_order_of_travel(const Graph& model) {
  std::vector<Value> parameters = model.parameters();
  std::ranges::stable_partition(parameters, [](Value v) { return v.type().shape.size() < 2; });
  return parameters;
}

// For each parameter a tensor of the store that is read and written.
StepGraph stored_tensors(const Graph& model, const std::string& format,
                         const std::function<std::string(const std::string&)>& name_of) {
  StepGraph step{std::make_shared<Graph>(), {}};
  for (Value parameter : in_order_of_travel(model)) {
    std::string name = name_of(model.node(parameter.node).name);
    Value value = step.graph->input(name, parameter.type(), false);
    step.graph->node(value.node).storage = {storage_cast(format)};
    step.graph->mark_output(name, value);
    step.stored[name] = name;
  }
  return step;
}

// In the order of stored_tensors.
std::vector<int64_t> list_of(const Owners& owners, const Graph& model) {
  std::vector<int64_t> list;
  if (owners.empty()) return list;
  for (Value parameter : in_order_of_travel(model)) {
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
  StepGraph sums = gradient_sum_graph(config, *gradients.graph);
  sums_ = std::make_unique<Program>(sums.graph, store, sums.stored);
  find_buckets(gradients, *sums.graph);
  if (!owners_.empty()) {
    StepGraph gathers = weight_gather_graph(config, *gradients.graph);
    gathers_ = std::make_unique<Program>(gathers.graph, store, gathers.stored);
  }
  auto most = static_cast<int64_t>(sizeof(uint64_t));
  for (const auto& [output, name] : gradients.stored) {
    if (!name.ends_with("/amax_history")) continue;
    histories_.push_back(name);
    most = std::max(most, store.bytes(name));
  }
  room_.emplace(store.device(), most * config.world);
}

void RankExchange::find_buckets(const StepGraph& gradients, const Graph& sums) {
  std::map<int, size_t> calls;  // by node
  for (const auto& [name, value] : sums.outputs()) calls.try_emplace(value.node, calls.size());
  if (calls.size() != sums_->calls()) throw Bug("a bucket is expected to be a call");
  bucket_sizes_.assign(calls.size(), 0);
  std::set<std::pair<int, int>> read;
  for (const Node& node : gradients.graph->nodes()) {
    for (Value input : node.inputs) read.insert({input.node, input.output});
  }
  for (const auto& [output, name] : gradients.stored) {
    auto sum = std::ranges::find(sums.outputs(), name, [](const auto& each) { return each.first; });
    if (sum == sums.outputs().end()) continue;
    size_t bucket = calls.at(sum->second.node);
    ++bucket_sizes_[bucket];
    Value value = gradients.graph->output(output);
    // What backward itself reads again must stay as it is until the end.
    if (read.contains({value.node, value.output})) continue;
    bucket_of_[{&gradients.graph->node(value.node), static_cast<size_t>(value.output)}] = bucket;
  }
}

bool RankExchange::owns(const std::string& parameter) const {
  return owners_.empty() || owners_.at(parameter) == ranks().rank();
}

void RankExchange::sum_gradients(Program& gradients) {
  const Device& device = store_.device();
  std::vector<int64_t> missing = bucket_sizes_;
  size_t left = missing.size();
  auto send_last = [&] {
    --left;
    device.beside([&] { sums_->launch_call(left); });
  };
  gradients.launch([&](const Node& node, size_t output, const Buffer&) {
    auto found = bucket_of_.find({&node, output});
    if (found == bucket_of_.end()) return;
    --missing[found->second];
    while (left > 0 && missing[left - 1] == 0) send_last();
  });
  while (left > 0) send_last();
  device.join();
  // A rank has seen its own batches only; all must cast alike.
  for (const std::string& name : histories_) {
    const Buffer& history = store_.at(name);
    share_largest(
        {reinterpret_cast<uint32_t*>(history.data), static_cast<size_t>(history.count())});
  }
}

void RankExchange::share_largest(std::span<uint32_t> words) const {
  store_.device().share_largest(words, {room_->data(), static_cast<size_t>(room_->size())});
}

void RankExchange::agree(uint64_t* bad_step) const {
  share_largest({reinterpret_cast<uint32_t*>(bad_step), sizeof(*bad_step) / sizeof(uint32_t)});
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
