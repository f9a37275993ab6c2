#include "sigma1/exchange/onnx_export.h"

#include "sigma1/base/error.h"
#include "sigma1/exchange/onnx_ops.h"
#include "sigma1/graph/sources.h"

namespace sigma1 {
namespace {

class Exporter {
 public:
  Exporter(const Graph& graph, const ParameterValues& parameters)
      : graph_(graph), parameters_(parameters), needed_(needed_nodes()) {}

  OnnxModel run() {
    for (int i = 0; i < graph_.size(); ++i) {
      names_.emplace_back();
      if (needed_[static_cast<size_t>(i)]) names_.back() = write(graph_.node(i));
    }
    for (const auto& [name, value] : graph_.outputs())
      model_.output(name, name_of(value), value.type());
    return std::move(model_);
  }

 private:
  std::vector<bool> needed_nodes() const {
    std::vector<bool> needed(graph_.nodes().size());
    for (const auto& [name, value] : graph_.outputs())
      needed[static_cast<size_t>(value.node)] = true;
    for (int i = graph_.size() - 1; i >= 0; --i) {
      if (!needed[static_cast<size_t>(i)]) continue;
      for (Value input : graph_.node(i).inputs) needed[static_cast<size_t>(input.node)] = true;
    }
    return needed;
  }

  const std::string& name_of(Value value) const {
    return names_[static_cast<size_t>(value.node)][static_cast<size_t>(value.output)];
  }

  OnnxModel::Names write(const Node& node) {
    model_.set_path(node.name);
    if (node.op == &input_op) {
      model_.input(node.name, node.outputs.front());
      return {node.name};
    }
    if (node.op == &parameter_op) {
      model_.parameter(node.name, node.outputs.front().shape, numbers_of(node));
      return {node.name};
    }
    if (node.inputs.empty()) return {evaluated(node)};
    OnnxRule rule = onnx_rule(*node.op);
    if (rule == nullptr) throw Error("{}: ONNX has no counterpart of {}", node.name, node.op->name);
    OnnxModel::Names inputs;
    for (Value input : node.inputs) inputs.push_back(name_of(input));
    OnnxModel::Names outputs = rule({node, std::move(inputs), model_});
    for (size_t i = 0; i < outputs.size(); ++i)
      outputs[i] = model_.scaled(outputs[i], node.factor(i));
    return outputs;
  }

  std::vector<float> numbers_of(const Node& node) const {
    auto found = parameters_.find(node.name);
    if (found == parameters_.end()) throw Bug("no numbers for the parameter {}", node.name);
    if (static_cast<int64_t>(found->second.size()) != node.outputs.front().count())
      throw Bug("{} numbers for {} of {}", found->second.size(), node.name,
                to_string(node.outputs.front().shape));
    return found->second;
  }

  // What depends on nothing is a constant, whatever computes it.
  std::string evaluated(const Node& node) {
    std::vector<Tensor> outputs{Tensor(node.outputs.front().shape)};
    node.op->evaluate({{}, outputs, node.attributes});
    std::vector<float> numbers;
    for (double number : outputs.front().data)
      numbers.push_back(static_cast<float>(number * node.factor(0)));
    return model_.reals(outputs.front().shape, numbers);
  }

  const Graph& graph_;
  const ParameterValues& parameters_;
  std::vector<bool> needed_;
  OnnxModel model_;
  std::vector<OnnxModel::Names> names_;
};

}  // namespace

OnnxModel onnx_model(const Graph& graph, const ParameterValues& parameters) {
  return Exporter(graph, parameters).run();
}

}  // namespace sigma1
