#include "sigma1/ops/cast.h"

#include <algorithm>
#include <cmath>

#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

std::vector<TensorType> infer_scaled_cast(const OpView& v) {
  expect_kind(v, 0, Kind::real);
  find_format(v.attr<std::string>("format"));
  std::vector<TensorType> outputs{v.in(0)};
  if (v.inputs.size() == 2) {
    expect_shape(v, 1, {kAmaxHistory});
    outputs.push_back(v.in(1));
  }
  return outputs;
}

float largest_magnitude(const std::vector<double>& values) {
  double largest = 0;
  for (double x : values) largest = std::max(largest, std::isnan(x) ? INFINITY : std::fabs(x));
  return static_cast<float>(largest);
}

void evaluate_scaled_cast(const EvalView& v) {
  FloatFormat format = find_format(v.attr<std::string>("format")).format;
  bool delayed = v.inputs.size() == 2;
  float own = largest_magnitude(v.in(0).data);
  float scale = cast_scale(delayed ? largest_magnitude(v.in(1).data) : own, format);
  float inverse = 1 / scale;
  for (int64_t i = 0; i < v.out().count(); ++i) {
    v.out()[i] = quantize(static_cast<float>(v.in(0)[i]) * scale, Cast{format}) * inverse;
  }
  if (!delayed) return;
  std::rotate_copy(v.in(1).data.begin(), v.in(1).data.end() - 1, v.in(1).data.end(),
                   v.out(1).data.begin());
  v.out(1)[0] = own;
}

Attributes scaled_cast_defaults(std::span<const TensorType>) {
  return {{"format", std::string("e4m3")}};
}

}  // namespace

float cast_scale(float largest_magnitude, const FloatFormat& format) {
  return cast_scale(largest_magnitude, static_cast<float>(format.max()));
}

constinit const OpDef scaled_cast_op{.name = "scaled_cast",
                                     .formula = "x in a format at its own scale, or its history's",
                                     .min_inputs = 1,
                                     .max_inputs = 2,
                                     .infer = infer_scaled_cast,
                                     .evaluate = evaluate_scaled_cast,
                                     .defaults = scaled_cast_defaults,
                                     .rounds_itself = true};

Value scaled_cast(Value x, std::string_view format, bool delayed, const std::string& name) {
  Graph& graph = *x.graph;
  Attributes attributes{{"format", std::string(format)}};
  if (!delayed) return graph.append(scaled_cast_op, {x}, attributes, name).front();
  std::string history_name = name + "/amax_history";
  Value history = graph.input(history_name, {{kAmaxHistory}}, false);
  graph.node(history.node).storage = {{find_format("fp32").format}};
  std::vector<Value> values = graph.append(scaled_cast_op, {x, history}, attributes, name);
  graph.mark_output(history_name, values[1]);
  return values[0];
}

}  // namespace sigma1
