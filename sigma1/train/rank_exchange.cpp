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
  std::stable_partition(parameters.begin(), parameters.end(),
                        [](Value v) { return v.type().shape.size() < 2; });
  return parameters;
}

// Tensors of the store that are read and written.
class StoredTensors {
 public:
  explicit StoredTensors(const Owners& owners) : owners_(owners) {}

  void add(const std::string& name, const Shape& shape, const Cast& cast,
           const std::string& parameter) {
    Value value = step_.graph->input(name, {shape}, false);
    step_.graph->node(value.node).storage = {cast};
    step_.graph->mark_output(name, value);
    step_.stored[name] = name;
    if (!owners_.empty()) list_.push_back(owners_.at(parameter));
  }

  StepGraph summed(const TrainConfig& config) && {
    sum_outputs(*step_.graph, options_of(config), list_);
    return std::move(step_);
  }
  StepGraph gathered(const TrainConfig& config) && {
    gather_outputs(*step_.graph, options_of(config), list_);
    return std::move(step_);
  }

 private:
  const Owners& owners_;
  StepGraph step_{std::make_shared<Graph>(), {}};
  std::vector<int64_t> list_;  // of owners, where there are any
};

// Parameters themselves, those that are wanted.
StepGraph whole_gather_graph(const TrainConfig& config, const Graph& model,
                             const std::set<std::string>& wanted) {
  Owners owners = owners_of(config, model);
  StoredTensors tensors(owners);
  Cast stored = storage_cast(config.resolved_precision().weights);
  for (Value parameter : in_order_of_travel(model)) {
    const std::string& name = model.node(parameter.node).name;
    if (wanted.contains(name)) tensors.add(name, parameter.shape(), stored, name);
  }
  return std::move(tensors).gathered(config);
}

std::unique_ptr<Program> program_of(const StepGraph& step, Store& store) {
  return std::make_unique<Program>(step.graph, store, step.stored);
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

std::set<std::string> gathered_as_copies(const TrainConfig& config, const Graph& gradients,
                                         std::span<const WeightCopy> copies) {
  std::set<std::string> names;
  if (config.gather == "stored" || owners_of(config, gradients).empty()) return names;
  int64_t whole = storage_cast(config.resolved_precision().weights).format.bytes();
  std::map<std::string, int64_t> bytes;  // of a number's copies
  for (const WeightCopy& each : copies) bytes[each.parameter] += each.cast.format.bytes();
  std::set<std::string> read = parameters_read(gradients);
  for (const auto& [parameter, all] : bytes) {
    if (all < whole && !read.contains(parameter)) names.insert(parameter);
  }
  return names;
}

StepGraph gradient_sum_graph(const TrainConfig& config, const Graph& model) {
  Owners owners = owners_of(config, model);
  StoredTensors tensors(owners);
  Cast stored = storage_cast(config.resolved_precision().gradients);
  for (Value parameter : in_order_of_travel(model)) {
    const std::string& name = model.node(parameter.node).name;
    tensors.add(gradient_name(name), parameter.shape(), stored, name);
  }
  return std::move(tensors).summed(config);
}

StepGraph weight_gather_graph(const TrainConfig& config, const Graph& gradients,
                              std::span<const WeightCopy> copies) {
  Owners owners = owners_of(config, gradients);
  std::set<std::string> as_copies = gathered_as_copies(config, gradients, copies);
  StoredTensors tensors(owners);
  Cast stored = storage_cast(config.resolved_precision().weights);
  for (Value parameter : in_order_of_travel(gradients)) {
    const std::string& name = gradients.node(parameter.node).name;
    if (!as_copies.contains(name)) tensors.add(name, parameter.shape(), stored, name);
    for (const WeightCopy& each : copies) {
      bool travels = each.parameter == name && as_copies.contains(name);
      if (travels) tensors.add(each.name, each.shape, each.cast, name);
    }
  }
  return std::move(tensors).gathered(config);
}

RankExchange::RankExchange(const TrainConfig& config, const StepGraph& gradients,
                           std::span<const WeightCopy> copies, Store& store)
    : store_(store),
      owners_(owners_of(config, *gradients.graph)),
      as_copies_(gathered_as_copies(config, *gradients.graph, copies)) {
  StepGraph sums = gradient_sum_graph(config, *gradients.graph);
  sums_ = program_of(sums, store);
  find_buckets(gradients, *sums.graph);
  if (!owners_.empty()) {
    gathers_ = program_of(weight_gather_graph(config, *gradients.graph, copies), store);
    whole_gathers_ = program_of(whole_gather_graph(config, *gradients.graph, as_copies_), store);
    std::vector<WeightCopy> of_others;
    for (const WeightCopy& each : copies) {
      bool is_here = owns(each.parameter) || as_copies_.contains(each.parameter);
      if (!is_here) of_others.push_back(each);
    }
    own_copies_ = program_of(weight_copy_graph(config, of_others), store);
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
  if (!gathers_) return;
  gathers_->launch();
  own_copies_->launch();
}

void RankExchange::gather_whole_weights() {
  if (whole_gathers_) whole_gathers_->launch();
}

MemoryUse RankExchange::memory() const {
  MemoryUse all = sums_->memory();
  for (const Program* each : {gathers_.get(), whole_gathers_.get()}) {
    if (each) all.workspace += each->memory().workspace;
  }
  return all;
}

bool is_own_work(int64_t number) { return number % ranks().size() == ranks().rank(); }

}  // namespace sigma1
