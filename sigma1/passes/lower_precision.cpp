#include <map>

#include "sigma1/base/error.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/cast.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/shape.h"
#include "sigma1/passes/differentiate.h"
#include "sigma1/passes/lowering.h"

namespace sigma1 {
namespace {

class Lowering {
 public:
  Lowering(const Graph& graph, const Precision& precision)
      : precision_(precision), is_gradient_(gradient_nodes(graph)) {}

  std::vector<Value> lower(Rewriter& rewriter, int index) {
    const Node& old_node = rewriter.old().node(index);
    std::vector<Value> inputs = rewriter.now(old_node.inputs);
    std::vector<TensorType> types = old_node.input_types();
    for (size_t i = 0; i < inputs.size(); ++i) {
      bool multiplied = old_node.op->multiplies != nullptr &&
                        old_node.op->multiplies({types, old_node.attributes}, i);
      bool gradient = is_gradient_[static_cast<size_t>(old_node.inputs[i].node)];
      if (multiplied) inputs[i] = for_product(inputs[i], old_node.name, gradient);
    }
    std::vector<Value> values = rewriter.copy(index);
    Node& node = rewriter.fresh().node(values.front().node);
    node.inputs = inputs;
    bool gradient = is_gradient_[static_cast<size_t>(index)];
    if (node.storage.empty()) node.storage = storage_of(node, gradient);
    return values;
  }

 private:
  // A scalar costs nothing and a loss needs its digits; what comes from outside is not ours to
  // round.
  std::vector<Cast> storage_of(const Node& node, bool gradient) const {
    std::vector<Cast> storage;
    for (const TensorType& type : node.outputs) {
      bool exact = node.op == &input_op || type.shape.empty() || type.kind == Kind::index;
      const std::string& format = exact                      ? kExact
                                  : node.op == &parameter_op ? precision_.weights
                                  : gradient                 ? precision_.gradients
                                                             : precision_.activations;
      storage.push_back(storage_cast(format));
    }
    return storage;
  }

  // The value as a product wants it: cast once however often it is multiplied. A reshape is looked
  // through, so that forward and backward share the cast.
  Value for_product(Value value, std::string_view node_name, bool gradient) {
    const std::string& wanted = precision_.matmul_format(node_name);
    if (wanted == "stored") return value;
    std::string format = wanted != "fp8" ? wanted : gradient ? "e5m2" : "e4m3";
    Graph& graph = *value.graph;
    const Node& node = graph.node(value.node);
    if (node.op == &reshape_op && node.factor(0) == 1) {
      Value before = node.inputs.front();
      Value cast_before = for_product(before, node_name, gradient);
      return cast_before == before ? value : reshaped(cast_before, value);
    }
    Cast cast = product_cast(format);
    const FloatFormat& stored = node.storage[static_cast<size_t>(value.output)].format;
    if (stored.bits() <= cast.format.bits()) return value;
    auto [entry, is_new] = casts_.try_emplace({value.node, value.output, format});
    if (is_new) entry->second = append_cast(value, format, cast);
    return entry->second;
  }

  Value reshaped(Value cast, Value like) {
    auto [entry, is_new] = reshapes_.try_emplace({cast.node, like.node});
    if (!is_new) return entry->second;
    Graph& graph = *like.graph;
    std::string name = graph.node(like.node).name;
    Value result =
        graph.append(reshape_op, {cast}, {{"shape", like.shape()}}, name + "/cast").front();
    graph.node(result.node).storage = {
        graph.node(cast.node).storage[static_cast<size_t>(cast.output)]};
    return entry->second = result;
  }

  Value append_cast(Value value, const std::string& format, const Cast& cast) {
    Graph& graph = *value.graph;
    std::string name = fmt::format("{}/as_{}", graph.node(value.node).name, format);
    Value result =
        precision_.scaling == CastScaling::none
            ? graph.append(identity_op, {value}, {}, name).front()
            : scaled_cast(value, format, precision_.scaling == CastScaling::delayed, name);
    graph.node(result.node)
        .storage.assign(graph.node(result.node).outputs.size(), storage_cast(kExact));
    graph.node(result.node).storage.front() = cast;
    return result;
  }

  inline static const std::string kExact = "fp32";

  const Precision& precision_;
  std::vector<bool> is_gradient_;
  std::map<std::tuple<int, int, std::string>, Value> casts_;
  std::map<std::pair<int, int>, Value> reshapes_;
};

}  // namespace

void lower_precision(Graph& graph, const Precision& precision) {
  Lowering lowering(graph, precision);
  rewrite(graph, [&](Rewriter& rewriter, int node) { return lowering.lower(rewriter, node); });
}

}  // namespace sigma1
