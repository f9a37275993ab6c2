#include "sigma1/train/memory_table.h"

#include <algorithm>
#include <map>

#include "sigma1/graph/sources.h"
#include "sigma1/runtime/placement.h"
#include "sigma1/runtime/store.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {
namespace {

class Shares {
 public:
  void add(const std::string& kind, const std::string& op, int64_t bytes) {
    auto [place, is_new] = found_.try_emplace({kind, op}, shares_.size());
    if (is_new) shares_.push_back({kind, op});
    MemoryShare& share = shares_[place->second];
    ++share.tensors;
    share.bytes += bytes;
  }

  // Kinds in the order they came, the largest of each first.
  std::vector<MemoryShare> sorted() && {
    std::map<std::string, size_t> kinds;
    for (const MemoryShare& share : shares_) kinds.try_emplace(share.kind, kinds.size());
    std::ranges::sort(shares_, [&](const MemoryShare& a, const MemoryShare& b) {
      return std::pair(kinds[a.kind], -a.bytes) < std::pair(kinds[b.kind], -b.bytes);
    });
    return std::move(shares_);
  }

 private:
  std::map<std::pair<std::string, std::string>, size_t> found_;
  std::vector<MemoryShare> shares_;
};

int64_t stored_bytes(const Node& node) {
  const TensorType& type = node.outputs.front();
  return type.count() * element_bytes(type.kind, storage(node, 0));
}

// By the names of step_graphs.h.
std::string kind_of(const std::string& name, const std::vector<std::string>& parameters) {
  for (const std::string& parameter : parameters) {
    if (name == parameter || name == master_name(parameter)) return "parameters";
    if (name == gradient_name(parameter)) return "gradients";
    if (name == moment_name(parameter) || name == second_moment_name(parameter)) return "states";
  }
  return "";
}

// A copy that is read both ways is there in both.
void add_copies(const Graph& gradients, const Placement& placement,
                std::span<const WeightCopy> copies, Shares& shares) {
  for (int i = 0; i < gradients.size(); ++i) {
    const Node& node = gradients.node(i);
    auto has_name = [&](const WeightCopy& copy) { return copy.name == node.name; };
    if (node.op != &input_op || std::ranges::none_of(copies, has_name)) continue;
    bool both = placement.places[static_cast<size_t>(i)].front().turned_width > 0;
    shares.add("copies", "", stored_bytes(node) * (both ? 2 : 1));
  }
}

void add_kept(const TrainConfig& config, const Graph& gradients, Shares& shares) {
  std::vector<std::string> parameters;
  for (Value parameter : gradients.parameters()) {
    const Node& node = gradients.node(parameter.node);
    parameters.push_back(node.name);
    // Beside master weights, which the update has, those that the model reads.
    if (config.master_weights) shares.add("parameters", "", stored_bytes(node));
  }
  StepGraph update = update_graph(config, {});
  std::map<std::string, std::vector<int64_t>> found;
  for (const Node& node : update.graph->nodes()) {
    if (node.op != &input_op) continue;
    std::string kind = kind_of(node.name, parameters);
    if (!kind.empty()) found[kind].push_back(stored_bytes(node));
  }
  for (const char* kind : {"parameters", "gradients", "states"}) {
    for (int64_t bytes : found[kind]) shares.add(kind, "", bytes);
  }
}

}  // namespace

int64_t MemoryTable::total() const {
  int64_t kept = 0;
  for (const MemoryShare& share : shares) kept += share.op.empty() ? share.bytes : 0;
  return kept + arena;
}

MemoryTable memory_table(const TrainConfig& config, const Device& device) {
  StepGraph step = gradient_graph(config, {}, device);
  std::vector<WeightCopy> copies = keep_weight_casts(*step.graph);
  Placement placement = place_values(*step.graph, step.stored, Fusion::chains, device);
  Shares shares;
  add_kept(config, *step.graph, shares);
  add_copies(*step.graph, placement, copies, shares);
  for (const char* kind : {"activations", "backward"}) {
    for (const Held& held : placement.at_peak) {
      const Node& node = step.graph->node(held.node);
      bool of_backward = node.again || node.name.starts_with("grad/");
      if (of_backward == (std::string_view(kind) == "backward")) {
        shares.add(kind, std::string(node.op->name), held.bytes);
      }
    }
  }
  return {std::move(shares).sorted(), placement.arena.bytes};
}

}  // namespace sigma1
