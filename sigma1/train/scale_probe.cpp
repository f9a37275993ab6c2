#include "sigma1/train/scale_probe.h"

#include <algorithm>
#include <optional>
#include <set>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/shape.h"

namespace sigma1 {
namespace {

constexpr std::string_view kBackward = "grad/";

bool is_view(const Node& node) { return node.op == &reshape_op || node.op == &identity_op; }

// What a value is a view or a cast of.
Value origin(const Graph& graph, Value value) {
  while (is_view(graph.node(value.node))) value = graph.node(value.node).inputs.front();
  return value;
}

const FloatFormat& stored_format(const Graph& graph, Value value) {
  return graph.node(value.node).storage[static_cast<size_t>(value.output)].format;
}

// The products, by forward name, that read each tensor in fewer bits than it is stored in: those
// that take the fewest, and in which format.
struct ProductCasts {
  struct Use {
    FloatFormat format;
    std::vector<std::string> products;
  };
  std::map<std::pair<int, int>, Use> by_value;

  explicit ProductCasts(const Graph& graph) {
    for (const Node& node : graph.nodes()) names_.insert(node.name);
    for (const Node& node : graph.nodes()) {
      std::vector<TensorType> types = node.input_types();
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        bool multiplied =
            node.op->multiplies != nullptr && node.op->multiplies({types, node.attributes}, i);
        if (multiplied) add(graph, node, node.inputs[i]);
      }
    }
  }

 private:
  void add(const Graph& graph, const Node& product, Value read) {
    Value stored = origin(graph, read);
    const FloatFormat& format = stored_format(graph, read);
    if (format.bits() >= stored_format(graph, stored).bits()) return;
    Use& use = by_value[{stored.node, stored.output}];
    if (!use.products.empty() && format.bits() > use.format.bits()) return;
    if (use.products.empty() || format.bits() < use.format.bits()) use = {format, {}};
    std::string name = forward_name(product.name);
    if (std::ranges::find(use.products, name) == use.products.end()) use.products.push_back(name);
  }

  // A backward node lies below the forward one it belongs to.
  std::string forward_name(std::string name) const {
    if (!name.starts_with(kBackward)) return name;
    name = name.substr(kBackward.size());
    while (!names_.contains(name) && name.find('/') != std::string::npos) {
      name = name.substr(0, name.rfind('/'));
    }
    return name;
  }

  std::set<std::string> names_;
};

// What has numbers of its own: no views, no scalars, no masks.
std::vector<Value> tensors_of(Graph& graph) {
  std::vector<Value> tensors;
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    bool is_given = node.op == &input_op && !node.attributes.get_or<bool>("with_gradient", true);
    if (is_view(node) || is_given) continue;
    for (int o = 0; o < static_cast<int>(node.outputs.size()); ++o) {
      const TensorType& type = node.outputs[static_cast<size_t>(o)];
      if (type.kind == Kind::real && type.count() > 1) tensors.push_back({&graph, i, o});
    }
  }
  return tensors;
}

std::optional<FloatFormat> asked_format(const std::string& format, TensorRole role) {
  if (format.empty()) return std::nullopt;
  bool gradient = role == TensorRole::gradx || role == TensorRole::gradw;
  if (format == "fp8") return find_format(gradient ? "e5m2" : "e4m3").format;
  return find_format(format).format;
}

// Casts that find their scale at run time are the run's own business: here they are plain ones, and
// what they lose is reckoned from the tensor's largest magnitude.
TrainConfig without_run_time_scales(TrainConfig config) {
  if (Method::parse(config.method).kind == Method::Kind::per_tensor) config.method = "none";
  return config;
}

}  // namespace

struct ScaleProbe::Target {
  TensorLabel label;
  FloatFormat format;
  std::vector<std::string> products;
  bool scaled_to_fit = false;
};

ProbeFilter::ProbeFilter(std::string_view text, std::string_view key) {
  if (text == "none") return;
  for (const std::string& each : split(std::string(text), ',')) {
    size_t colon = each.find(':');
    std::optional<TensorRole> role = find_role(each.substr(0, colon));
    std::string pattern = colon == std::string::npos ? "" : each.substr(colon + 1);
    if (each.empty() || (colon != std::string::npos && (!role || pattern.empty()))) {
      throw Error("{}: expected all, none, or a list of ROLE, ROLE:NAME and NAME, got '{}'", key,
                  text);
    }
    parts_.push_back(role ? Part{role, pattern} : each == "all" ? Part{} : Part{{}, each});
  }
}

bool ProbeFilter::wants(const TensorLabel& label) const {
  return std::ranges::any_of(parts_, [&](const Part& part) {
    return (!part.role || part.role == label.role) &&
           (part.pattern.empty() || matches_pattern(label.name, part.pattern) ||
            matches_pattern(label.name, part.pattern + "/*"));
  });
}

ScaleProbe::ScaleProbe(const TrainConfig& config, const Alignment& alignment,
                       const ProbeOptions& options)
    : store_(*options.device), meter_(options.device->make_meter()) {
  LabelledGraph labelled = labelled_gradient_graph(without_run_time_scales(config), alignment);
  graph_ = labelled.step.graph;
  find_targets(config, labelled.labels, options);
  for (int i = 0; i < graph_->size(); ++i) graph_->node(i).storage.clear();
  program_ = std::make_unique<Program>(graph_, store_, labelled.step.stored,
                                       static_cast<uint64_t>(config.seed), Fusion::none);
}

ScaleProbe::~ScaleProbe() = default;

void ScaleProbe::find_targets(const TrainConfig& config, const TensorLabels& labels,
                              const ProbeOptions& options) {
  ProbeFilter filter(options.filter, options.filter_key);
  ProductCasts casts(*graph_);
  std::vector<bool> is_gradient = gradient_nodes(*graph_);
  bool fits = Method::parse(config.method).kind == Method::Kind::per_tensor;
  for (Value value : tensors_of(*graph_)) {
    const Node& node = graph_->node(value.node);
    auto found = labels.find({node.name, value.output});
    // Without a label only a step within a gradient's rule counts: no sum over batches, and no
    // value that the rule computes from forward ones.
    bool is_inner =
        node.name.starts_with(kBackward) && is_gradient[static_cast<size_t>(value.node)];
    TensorLabel label =
        found != labels.end() ? found->second : TensorLabel{node.name, TensorRole::gradx};
    if ((found == labels.end() && !is_inner) || !filter.wants(label)) continue;
    std::optional<FloatFormat> asked = asked_format(options.format, label.role);
    auto cast = casts.by_value.find({value.node, value.output});
    bool is_cast = cast != casts.by_value.end();
    FloatFormat own = is_cast ? cast->second.format : stored_format(*graph_, value);
    Target& target = targets_[{node.name, value.output}];
    target = {label, asked.value_or(own), {}, fits && is_cast && !asked};
    if (is_cast) target.products = cast->second.products;
  }
  if (targets_.empty()) {
    throw Error(
        "{}: expected tensors of the model, and '{}' means none; `sigma1 scales` lists them",
        options.filter_key, options.filter);
  }
}

std::vector<TensorScale> ScaleProbe::measure() {
  std::vector<TensorScale> result;
  auto look_at = [&](const Target& target, const Buffer& buffer) {
    auto largest = static_cast<float>(target.format.max());
    meter_->look_at(buffer, FormatLimits::of(target.format), target.scaled_to_fit ? largest : 0);
    result.push_back({.name = target.label.name,
                      .role = target.label.role,
                      .format = format_name(target.format),
                      .products = target.products});
  };
  std::set<int> listed;
  auto list_sources = [&](const Node& reader) {
    for (Value input : reader.inputs) {
      Value source = origin(*graph_, input);
      const Node& node = graph_->node(source.node);
      auto found = targets_.find({node.name, 0});
      bool is_bound = node.op == &parameter_op || node.op == &input_op;
      if (!is_bound || found == targets_.end() || !listed.insert(source.node).second) continue;
      look_at(found->second, store_.at(node.name));
    }
  };
  program_->run(0, [&](const Node& node, size_t output, const Buffer& buffer) {
    if (output == 0) list_sources(node);
    auto found = targets_.find({node.name, static_cast<int>(output)});
    if (found != targets_.end()) look_at(found->second, buffer);
  });
  std::vector<TensorFindings> findings = meter_->take();
  for (size_t i = 0; i < result.size(); ++i) {
    result[i].stats = findings[i].stats;
    result[i].loss = findings[i].loss;
  }
  return result;
}

}  // namespace sigma1
