#include "sigma1/train/align_function.h"

#include <algorithm>
#include <cmath>

#include "sigma1/analysis/factor_conditions.h"
#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/train/node_scales.h"
#include "sigma1/train/session.h"
#include "sigma1/train/stored_model.h"

namespace sigma1 {
namespace {

constexpr double kSame = 1e-9;  // relative; rounding of a few hundred factors stays below

bool is_same(double a, double b) { return std::fabs(a - b) <= kSame * std::fabs(b); }

// One walk through both models in their order. Every value of the unit-scaled one is a known ratio
// times the plain one's, given the factors it has now; a setting is what makes this true of the
// node it belongs to.
class Walk {
 public:
  Walk(const Graph& plain, const Graph& unit, const NodeScales& measured)
      : plain_(plain), unit_(unit), measured_(measured) {
    if (plain.size() != unit.size()) throw Bug("align: models of different nodes");
    for (int i = 0; i < plain.size(); ++i) {
      ratios_.emplace_back(plain.node(i).outputs.size(), 1.0);
      visit(i);
    }
  }

  FunctionAlignment result() && { return std::move(result_); }

 private:
  // None where all numbers are zero, which is any ratio.
  double start_ratio(int i) const {
    auto start = [](const Node& node) {
      bool constant = node.attributes.get<std::string>("distribution") == "constant";
      return node.attributes.get<double>(constant ? "mean" : "std_dev");
    };
    double before = start(plain_.node(i)), after = start(unit_.node(i));
    return before == 0 ? NAN : after / before;
  }

  double ratio(Value value) const {
    return ratios_[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  }

  double ratio(const Node& node, const InputGroup& group) const {
    double product = 1;
    for (size_t k : group) product *= ratio(node.inputs[k]);
    return product;
  }

  void visit(int i) {
    const Node& node = plain_.node(i);
    if (node.op == &parameter_op) {
      ratios_.back().assign(1, start_ratio(i));
      return;
    }
    FactorConditions conditions = factor_conditions(node);
    if (node.op == &attention_op) tell_shares(node);
    if (!conditions.fixed.empty()) fix(i, conditions.fixed);
    if (conditions.outputs.empty()) return;
    double given = is_sum(node) ? weigh(i) : common_ratio(node, conditions.outputs);
    if (node.op == &attention_op) tell_spread(i);
    for (size_t output = 0; output < node.outputs.size(); ++output)
      ratios_.back()[output] = given * unit_.node(i).factor(output) / node.factor(output);
  }

  double common_ratio(const Node& node, const std::vector<InputGroup>& groups) const {
    double common = NAN;
    for (const InputGroup& group : groups) {
      double each = ratio(node, group);
      if (std::isnan(each)) continue;
      if (!std::isnan(common) && !is_same(each, common)) throw cannot_align(node);
      common = each;
    }
    return common;
  }

  static Error cannot_align(const Node& node) {
    return Error("align: {}: nothing can be set that makes this {} what it is in the plain model",
                 node.name, node.op->name);
  }

  // What a bent function reads must be as large as it was.
  void fix(int i, const std::vector<InputGroup>& groups) {
    const Node& node = plain_.node(i);
    if (node.op == &softmax_xent_op) {
      gain(i, node.inputs.front(), 1 / ratio(node, groups.front()));
      return;
    }
    double last = ratio(node, groups.back());
    // Relative positions meet the queries that keys do, and must be as large beside these.
    for (size_t g = 0; g + 1 < groups.size(); ++g)
      gain(i, node.inputs[groups[g].back()], last / ratio(node, groups[g]));
    double multiplier = node.attributes.get_or("multiplier", 1.0) / last;
    const InputGroup& first = groups.front();
    double plain = 1;
    for (size_t k : first) plain *= measured_.inputs.at(node.name)[k];
    set(node.name, "multiplier", multiplier, plain, plain * last);
  }

  // A factor of the product that a value comes from.
  void gain(int reader, Value value, double factor) {
    auto is_cut = [&] {
      const OpDef* op = plain_.node(value.node).op;
      return op == &reshape_op || op == &split_op;
    };
    while (is_cut()) value = plain_.node(value.node).inputs.front();
    const Node& product = plain_.node(value.node);
    if (product.op != &linear_op && product.op != &matmul_op)
      throw cannot_align(plain_.node(reader));
    double now = gain_of(unit_.node(value.node)) * factor;
    double plain = measured_.inputs.at(plain_.node(reader).name).front();
    set(product.name, kGain, now, plain, plain / now);
  }

  // Terms in the plain model's proportion. A residual join's weights have length 1, as its inputs
  // do; the ratio is that of the sum before its own factor.
  double weigh(int i) {
    const Node& node = plain_.node(i);
    std::vector<double> before = sum_weights(node), after = before;
    double scale = NAN, length = 0, wanted = 0;
    for (size_t k = 0; k < before.size(); ++k) {
      double each = ratio(node.inputs[k]);
      if (std::isnan(each)) continue;
      scale = each;
      after[k] = before[k] / each;
    }
    for (size_t k = 0; k < before.size(); ++k) {
      length += after[k] * after[k];
      wanted += before[k] * before[k];
    }
    bool is_join = !node.attributes.get_or("residual", std::string()).empty();
    double times = std::sqrt((is_join ? 1 : wanted) / length);
    bool is_plain = true;
    for (size_t k = 0; k < before.size(); ++k) {
      after[k] *= times;
      is_plain = is_plain && is_same(after[k], before[k]);
    }
    if (is_plain && !is_join) return scale;
    if (node.op != &weighted_add_op) throw cannot_align(node);
    std::vector<double> plain = measured_.inputs.at(node.name), unit = plain;
    for (size_t k = 0; k < unit.size(); ++k) unit[k] *= ratio(node.inputs[k]);
    result_.alignment.weights[node.name] = after;
    result_.settings.push_back({node.name, "weights", plain, unit, after});
    return times;
  }

  // Averaging leaves more of values that are alike than the rule says, which takes them as
  // independent.
  void tell_spread(int i) {
    const Node &node = plain_.node(i), &unit = unit_.node(i);
    double left = measured_.output.at(node.name) / measured_.inputs.at(node.name)[2];
    std::vector<TensorType> types = unit.input_types();
    double assumed = 1 / unit.op->scale({types, unit.attributes}, {}).alpha;
    set(node.name, kGain, assumed / left, left, assumed);
  }

  // A softmax over fewer keys, and gradients of fewer queries.
  void tell_shares(const Node& node) {
    auto tell = [&](const char* setting, double share) {
      if (share == 0 || share == 1) return;
      result_.alignment.settings[node.name][setting] = share;
      result_.settings.push_back({node.name, setting, {share}, {}, {share}});
    };
    if (auto found = measured_.filled_keys.find(node.name); found != measured_.filled_keys.end())
      tell(kFilledKeys, found->second);
    tell(kFilledQueries, measured_.gradients.at(node.name).rows);
  }

  void set(const std::string& node, const char* setting, double value, double plain, double unit) {
    result_.alignment.settings[node][setting] = value;
    result_.settings.push_back({node, setting, {plain}, {unit}, {value}});
  }

  const Graph &plain_, &unit_;
  const NodeScales& measured_;
  std::vector<std::vector<double>> ratios_;  // by node and output
  FunctionAlignment result_;
};

bool is_same(const Alignment& a, const Alignment& b) {
  if (a.weights.size() != b.weights.size() || a.settings.size() != b.settings.size()) return false;
  for (const auto& [node, weights] : a.weights) {
    auto other = b.weights.find(node);
    bool same = other != b.weights.end() &&
                std::ranges::equal(weights, other->second,
                                   [](double x, double y) { return is_same(x, y); });
    if (!same) return false;
  }
  for (const auto& [node, settings] : a.settings) {
    auto other = b.settings.find(node);
    if (other == b.settings.end() || settings.size() != other->second.size()) return false;
    for (const auto& [name, value] : settings) {
      auto found = other->second.find(name);
      if (found == other->second.end() || !is_same(value, found->second)) return false;
    }
  }
  return true;
}

}  // namespace

TrainConfig measured_config(const TrainConfig& config) {
  constexpr int64_t kTokens = 1024;
  TrainConfig measured = config;
  int64_t sequences = std::max<int64_t>(1, kTokens / std::max<int64_t>(1, config.size.time));
  measured.size.batch = std::min(config.size.batch, sequences);
  return measured;
}

namespace {

// Activations and what they mean; gradients have no say in it.
FunctionAlignment align_forward(const TrainConfig& config, const NodeScales& measured) {
  TrainConfig plain_config = config;
  plain_config.method = "none";
  std::shared_ptr<Graph> plain = scaled_model(plain_config, {});
  FunctionAlignment found;
  // A node's factors follow from its own settings, and those from the factors before it.
  for (int round = 0; round <= plain->size(); ++round) {
    std::shared_ptr<Graph> unit = scaled_model(config, found.alignment);
    FunctionAlignment next = Walk(*plain, *unit, measured).result();
    bool settled = is_same(next.alignment, found.alignment);
    found = std::move(next);
    if (settled) return found;
  }
  throw Error("align: the settings of {} do not settle", config.model);
}

// Where no edge is a cut edge, all gradients have one factor in common, and losses choose it
// without knowing what lies between. The geometric mean of all that were measured becomes 1.
void align_gradients(const Graph& unit, const NodeScales& measured, FunctionAlignment& found) {
  double logs = 0, count = 0;
  for (const auto& [node, gradient] : measured.gradients) {
    if (gradient.rows == 0) continue;
    logs += std::log(gradient.rms / std::sqrt(gradient.rows));
    ++count;
  }
  double mean = std::exp(logs / count);
  for (const Node& node : unit.nodes()) {
    auto set = [&](const char* setting, double value, std::vector<double> seen) {
      found.alignment.settings[node.name][setting] = value;
      found.settings.push_back({node.name, setting, {}, std::move(seen), {value}});
    };
    if (node.op == &softmax_xent_op) set(kGradientGain, 1 / mean, {mean});
    auto gradient = measured.gradients.find(node.name);
    if (gradient == measured.gradients.end() || node.op == &attention_op) continue;
    auto [rms, rows] = gradient->second;
    if (rows > 0) set(kGradientSquare, rms * rms / (mean * mean), {rows, rms});
  }
}

}  // namespace

FunctionAlignment align_function(const TrainConfig& config, const ModelBatch& batch) {
  TrainConfig small = measured_config(config), plain = small;
  plain.method = "none";
  auto seed = static_cast<uint64_t>(config.seed);
  FunctionAlignment found =
      align_forward(config, measure_nodes(scaled_model(plain, {}), seed, batch));
  std::shared_ptr<Graph> unit = scaled_model(small, found.alignment);
  align_gradients(*scaled_model(config, {}), measure_nodes(unit, seed, batch), found);
  return found;
}

std::map<std::string, std::vector<float>> initial_scores(const TrainConfig& config,
                                                         const Alignment& alignment,
                                                         const ModelBatch& batch) {
  std::shared_ptr<Graph> graph = forward_graph(config, alignment);
  Store store;
  Program program(graph, store);
  initialise_parameters(store, *graph, static_cast<uint64_t>(config.seed));
  write_batch(store, batch);
  program.run(0);
  std::map<std::string, std::vector<float>> scores;
  for (const auto& [name, value] : graph->outputs())
    scores[name] = read_floats(program.output(name));
  return scores;
}

}  // namespace sigma1
