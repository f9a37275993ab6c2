#include "sigma1/backend/simulate.h"

#include <cmath>

#include "sigma1/backend/reference.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/passes/differentiate.h"

namespace sigma1 {
namespace {

std::string input_name(size_t i) { return fmt::format("x{}", i); }

// A scalar whose gradient with respect to each output is a unit normal tensor, or 1 for an output
// that is a scalar itself: a loss.
Value probe(Graph& graph, const std::vector<Value>& outputs, Bindings& bindings, uint64_t seed) {
  std::vector<Value> terms;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Shape shape = outputs[i].shape();
    if (shape.empty()) {
      terms.push_back(outputs[i]);
      continue;
    }
    std::string name = fmt::format("dy{}", i);
    Value dy = graph.input(name, {shape}, false);
    bindings[name] = normal_tensor(shape, name, seed);
    Value product = mul(outputs[i], dy);
    std::vector<int64_t> axes(shape.size());
    for (size_t axis = 0; axis < axes.size(); ++axis) axes[axis] = static_cast<int64_t>(axis);
    terms.push_back(sum(product, axes));
  }
  return add(terms);
}

}  // namespace

Tensor sample_input(const OpDef& op, const OpView& view, size_t input, bool as_initialised,
                    uint64_t seed) {
  const TensorType& type = view.in(input);
  if (type.kind == Kind::index) {
    return index_tensor(type.shape, op.index_limit(view, input), input_name(input), seed);
  }
  Role role = role_of(op, view, input);
  if (as_initialised && role == Role::bias) return Tensor(type.shape);
  Tensor tensor = normal_tensor(type.shape, input_name(input), seed);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (role == Role::mask) tensor[i] = as_initialised || i % 3 != 2 ? 1 : 0;
    if (op.positive_inputs) tensor[i] = std::exp(tensor[i]);
  }
  return tensor;
}

double scale_of(const std::vector<const Tensor*>& tensors, Criterion criterion) {
  double sum = 0, squares = 0, count = 0;
  for (const Tensor* tensor : tensors) {
    for (double x : tensor->data) {
      sum += x;
      squares += x * x;
    }
    count += static_cast<double>(tensor->count());
  }
  double mean = criterion == Criterion::std_dev ? sum / count : 0;
  return std::sqrt(squares / count - mean * mean);
}

Measured simulate(const OpDef& op, const std::vector<TensorType>& inputs,
                  const Attributes& attributes, Criterion criterion, uint64_t seed) {
  Graph graph;
  Bindings bindings;
  std::vector<Value> operands;
  OpView view{inputs, attributes};
  for (size_t i = 0; i < inputs.size(); ++i) {
    operands.push_back(graph.input(input_name(i), inputs[i]));
    bindings[input_name(i)] = sample_input(op, view, i, true, seed);
  }
  std::vector<Value> outputs = graph.append(op, operands, attributes);
  Value loss = probe(graph, outputs, bindings, seed);
  graph.mark_output("loss", loss);
  Gradients gradients = differentiate(graph, loss);
  ReferenceResult result = run_reference(graph, bindings);

  Measured measured;
  std::vector<const Tensor*> output_tensors;
  for (Value output : outputs) output_tensors.push_back(&result[output]);
  measured.output = scale_of(output_tensors, criterion);
  for (Value operand : operands) {
    Value gradient = gradients.of(operand);
    measured.gradients.push_back(gradient ? scale_of({&result[gradient]}, Criterion::rms) : 0);
  }
  return measured;
}

}  // namespace sigma1
