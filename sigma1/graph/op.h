// The one record that says everything about an op: its shapes, its scale factors, its gradient and
// what it computes. An op's identity is the address of its record.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "sigma1/graph/attributes.h"
#include "sigma1/graph/tensor.h"
#include "sigma1/numerics/elementwise_scale.h"

namespace sigma1 {

class Graph;
class GradView;
struct OpDef;

// A node's output: what ops are applied to.
struct Value {
  Graph* graph = nullptr;
  int node = -1;
  int output = 0;

  explicit operator bool() const { return graph != nullptr; }
  bool operator==(const Value&) const = default;
  const TensorType& type() const;
  const Shape& shape() const { return type().shape; }
};

// What a shape or scale rule sees: the types of the inputs and the settings.
struct OpView {
  std::span<const TensorType> inputs;
  const Attributes& attributes;

  const TensorType& in(size_t i) const { return inputs[i]; }
  template <class T>
  const T& attr(std::string_view name) const {
    return attributes.get<T>(name);
  }
};

// How scale factors are wanted: which moment becomes 1, and whether Table A.2's simplifications are
// followed where a better rule is known.
struct ScaleContext {
  Criterion criterion = Criterion::std_dev;
  bool as_printed = true;
};

// α, and β for every input; the β of an input without gradient is not read.
struct Scales {
  double alpha = 1;
  std::vector<double> beta;
};

// One gradient per input, an empty Value where there is none; not multiplied by β, which is
// differentiate's business.
using Grads = std::vector<Value>;

// What the reference computes with: inputs, shaped outputs to fill, and the training step.
struct EvalView {
  std::span<const Tensor* const> inputs;
  std::span<Tensor> outputs;
  const Attributes& attributes;
  uint64_t step = 0;

  const Tensor& in(size_t i) const { return *inputs[i]; }
  Tensor& out(size_t i = 0) const { return outputs[i]; }
  template <class T>
  const T& attr(std::string_view name) const {
    return attributes.get<T>(name);
  }
};

// What an input is to an op.
enum class Role {
  activation,
  weight,  // a parameter that starts random
  bias,    // a parameter, or a state, that starts at zero; scale rules take it as such
  mask,    // real numbers that carry no gradient
  index,
};

struct OpDef {
  std::string_view name;
  std::string_view formula;  // one line for people
  size_t min_inputs = 1, max_inputs = 1;
  std::vector<TensorType> (*infer)(const OpView&) = nullptr;
  // Both absent for ops that only a gradient rule or an optimiser emits.
  Scales (*scale)(const OpView&, const ScaleContext&) = nullptr;
  Grads (*grad)(GradView&) = nullptr;
  void (*evaluate)(const EvalView&) = nullptr;
  // What each input is; activations when absent.
  Role (*role)(const OpView&, size_t input) = nullptr;
  // An index input's values are below this; needed by ops that have one.
  int64_t (*index_limit)(const OpView&, size_t input) = nullptr;
  // The settings its builder gives it when asked for nothing special; none when absent.
  Attributes (*defaults)(std::span<const TensorType> inputs) = nullptr;
  // For an op that multiplies by a parameter inside: the settings that make a unit-variance
  // parameter compute what the plain initialisation did.
  void (*unit_attributes)(const OpView&, Attributes&) = nullptr;
  // Whether every output is proportional to this input: a factor on it may then move to the
  // outputs. Of no input when absent.
  bool (*linear_in)(const OpView&, size_t input) = nullptr;
  // Whether this input is a factor of matrix products: what FP8 training stores in FP8. Of no input
  // when absent.
  bool (*multiplies)(const OpView&, size_t input) = nullptr;
  // Its inputs must be positive; its scale rule takes them as log-normal.
  bool positive_inputs = false;
  // It rounds its first output itself, at a scale found at run time and stored beside the numbers.
  bool rounds_itself = false;
};

Role role_of(const OpDef& op, const OpView& view, size_t input);
bool carries_gradient(const OpDef& op, const OpView& view, size_t input);

}  // namespace sigma1
