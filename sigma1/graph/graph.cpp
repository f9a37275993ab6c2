#include "sigma1/graph/graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"

namespace sigma1 {
namespace {

std::vector<TensorType> types_of(std::span<const Value> values) {
  std::vector<TensorType> types;
  for (Value value : values) types.push_back(value.type());
  return types;
}

void check_operands(const Graph& graph, const OpDef& op, const std::string& path,
                    std::span<const Value> inputs) {
  if (inputs.size() < op.min_inputs || inputs.size() > op.max_inputs) {
    std::string expected = op.min_inputs == op.max_inputs
                               ? fmt::format("{}", op.min_inputs)
                               : fmt::format("{} to {}", op.min_inputs, op.max_inputs);
    throw Error("{} at {}: expected {} inputs, got {}", op.name, path, expected, inputs.size());
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) throw Error("{} at {}: input {} is empty", op.name, path, i);
    if (inputs[i].graph != &graph) {
      throw Error("{} at {}: input {} belongs to another graph", op.name, path, i);
    }
  }
}

std::vector<TensorType> infer(const OpDef& op, const std::string& path,
                              std::span<const TensorType> inputs, const Attributes& attributes) {
  try {
    return op.infer(OpView{inputs, attributes});
  } catch (const Error& error) {
    throw Error("{} at {}: {}", op.name, path, error.what());
  }
}

}  // namespace

std::string storage_stream(const Node& node, size_t output) {
  return fmt::format("{}:{}", node.name, output);
}

const TensorType& Value::type() const {
  return graph->node(node).outputs[static_cast<size_t>(output)];
}

Role role_of(const OpDef& op, const OpView& view, size_t input) {
  if (op.role != nullptr) return op.role(view, input);
  return view.in(input).kind == Kind::index ? Role::index : Role::activation;
}

bool carries_gradient(const OpDef& op, const OpView& view, size_t input) {
  Role role = role_of(op, view, input);
  return view.in(input).kind == Kind::real && role != Role::mask && role != Role::index;
}

std::vector<TensorType> Node::input_types() const { return types_of(inputs); }

std::vector<Value> Graph::append(const OpDef& op, std::vector<Value> inputs, Attributes attributes,
                                 std::string_view name) {
  std::string path = path_ + std::string(op.name);
  check_operands(*this, op, path, inputs);
  std::vector<TensorType> outputs = infer(op, path, types_of(inputs), attributes);
  std::vector<Value> values;
  for (size_t i = 0; i < outputs.size(); ++i) values.push_back({this, size(), static_cast<int>(i)});
  std::vector<double> beta(inputs.size(), 1.0);
  nodes_.push_back({&op,
                    unique_name(name.empty() ? op.name : name),
                    std::move(inputs),
                    std::move(attributes),
                    std::move(outputs),
                    1,
                    std::move(beta),
                    false,
                    {},
                    {}});
  return values;
}

Value Graph::input(const std::string& name, TensorType type, bool with_gradient) {
  return append(input_op, {},
                {{"shape", type.shape},
                 {"index", type.kind == Kind::index},
                 {"with_gradient", with_gradient && type.kind == Kind::real}},
                name)
      .front();
}

Value Graph::parameter(const std::string& name, Shape shape, const Init& init) {
  return append(parameter_op, {},
                {{"shape", std::move(shape)},
                 {"distribution", init.distribution},
                 {"std_dev", init.std_dev},
                 {"mean", init.mean}},
                name)
      .front();
}

Value Graph::constant(Shape shape, double value) {
  return append_one(constant_op, {}, {{"shape", std::move(shape)}, {"value", value}});
}

void Graph::mark_output(const std::string& name, Value value) {
  if (value.graph != this) throw Error("output {}: the value belongs to another graph", name);
  outputs_.emplace_back(name, value);
}

void Graph::replace_output(const std::string& name, Value value) {
  if (value.graph != this) throw Error("output {}: the value belongs to another graph", name);
  for (auto& [each, marked] : outputs_) {
    if (each != name) continue;
    marked = value;
    return;
  }
  throw Error("the graph has no output '{}'", name);
}

void Graph::keep_outputs(const std::vector<std::string>& names) {
  std::erase_if(outputs_, [&](const auto& entry) {
    return std::ranges::find(names, entry.first) == names.end();
  });
}

void Graph::take(Graph& other) {
  nodes_ = std::exchange(other.nodes_, {});
  outputs_ = std::exchange(other.outputs_, {});
  names_ = std::exchange(other.names_, {});
  for (Node& node : nodes_) {
    for (Value& input : node.inputs) input.graph = this;
  }
  for (auto& [name, value] : outputs_) value.graph = this;
}

Value Graph::output(const std::string& name) const {
  for (const auto& [each, value] : outputs_) {
    if (each == name) return value;
  }
  throw Error("the graph has no output '{}'", name);
}

std::vector<Value> Graph::parameters() const {
  std::vector<Value> values;
  for (int i = 0; i < size(); ++i) {
    if (node(i).op == &parameter_op) values.push_back({const_cast<Graph*>(this), i, 0});
  }
  return values;
}

std::string Graph::unique_name(std::string_view wanted) {
  std::string name = path_ + std::string(wanted);
  int seen = names_[name]++;
  return seen == 0 ? name : unique_name(fmt::format("{}_{}", wanted, seen + 1));
}

Graph::Path::Path(Graph& graph, const std::string& part)
    : graph_(graph), outer_length_(graph.path_.size()) {
  graph_.path_ += part + "/";
}

Graph::Path::~Path() { graph_.path_.resize(outer_length_); }

Value GradView::dy(size_t output) const {
  if (output_gradients_[output]) return output_gradients_[output];
  return graph_.constant(graph_.node(node_).outputs[output].shape, 0.0);
}

}  // namespace sigma1
