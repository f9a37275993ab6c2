#include "sigma1/ops/conv.h"

#include "sigma1/ops/reduce.h"
#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

int64_t positive(const Attributes& attributes, std::string_view name) {
  auto value = attributes.get<int64_t>(name);
  if (value >= 1) return value;
  throw Error("{}: expected at least 1, got {}", name, value);
}

}  // namespace

ConvDims conv_dims(const Shape& x, const Shape& w, const Attributes& attributes) {
  if (x.size() != 3) throw Error("x: expected [batch, time, c_in], got {}", to_string(x));
  if (w.size() != 3) throw Error("w: expected [kernel, c_in/groups, c_out], got {}", to_string(w));
  ConvDims d{.batch = x[0],
             .time = x[1],
             .c_in = x[2],
             .kernel = w[0],
             .c_out = w[2],
             .groups = positive(attributes, "groups"),
             .stride = positive(attributes, "stride"),
             .dilation = positive(attributes, "dilation"),
             .padding = 0,
             .time_out = 0};
  if (d.c_in % d.groups != 0 || d.c_out % d.groups != 0) {
    throw Error("groups: expected a divisor of {} and {} channels, got {}", d.c_in, d.c_out,
                d.groups);
  }
  if (w[1] != d.c_in / d.groups) {
    throw Error("w: expected {} input channels for {} in {} groups, got {}", d.c_in / d.groups,
                d.c_in, d.groups, to_string(w));
  }
  int64_t reach = (d.kernel - 1) * d.dilation;
  if (attributes.get<bool>("causal")) d.padding = reach;
  if (d.time + d.padding <= reach) {
    throw Error("x: expected a time above {}, the reach of the kernel, got {}", reach, d.time);
  }
  d.time_out = (d.time + d.padding - reach - 1) / d.stride + 1;
  return d;
}

namespace {

void expect_all_real(const OpView& v) {
  for (size_t i = 0; i < v.inputs.size(); ++i) expect_kind(v, i, Kind::real);
}

std::vector<TensorType> infer_conv1d(const OpView& v) {
  expect_all_real(v);
  ConvDims d = conv_dims(v.in(0).shape, v.in(1).shape, v.attributes);
  if (v.inputs.size() == 3) expect_shape(v, 2, {d.c_out});
  return {{{d.batch, d.time_out, d.c_out}}};
}

Role conv_role(const OpView&, size_t input) {
  return input == 0 ? Role::activation : input == 1 ? Role::weight : Role::bias;
}

Attributes conv_attributes(const Conv1dOptions& options) {
  return {{"stride", options.stride},
          {"dilation", options.dilation},
          {"groups", options.groups},
          {"causal", options.causal}};
}

Attributes conv_defaults(std::span<const TensorType>) { return conv_attributes({}); }

// Each product that does not read padding is a term of one element of y, of dx and of dw: the mean
// number of terms is all products over all elements. The bias starts at zero and does not count.
Scales scale_conv1d(const OpView& v, const ScaleContext&) {
  ConvDims d = conv_dims(v.in(0).shape, v.in(1).shape, v.attributes);
  int64_t taps = 0;
  for (int64_t t = 0; t < d.time_out; ++t) {
    for (int64_t tap = 0; tap < d.kernel; ++tap) taps += d.reads(t, tap) ? 1 : 0;
  }
  int64_t products = taps * d.batch * (d.c_in / d.groups) * d.c_out, rows = d.batch * d.time_out;
  auto factor = [&](int64_t elements) {
    return rsqrt(static_cast<double>(products) / static_cast<double>(elements));
  };
  Scales scales{factor(rows * d.c_out), {factor(v.in(0).count()), factor(v.in(1).count())}};
  if (v.inputs.size() == 3) scales.beta.push_back(rsqrt(static_cast<double>(rows)));
  return scales;
}

Grads grad_conv1d(GradView& g) {
  Value x = g.x(0), w = g.x(1), dy = g.dy();
  Attributes for_input = g.attributes(), for_weight = for_input;
  for_input.set("time", x.type().dim(1));
  for_weight.set("kernel", w.type().dim(0));
  Grads grads{g.graph().append_one(conv1d_grad_input_op, {dy, w}, for_input)};
  grads.push_back(g.graph().append_one(conv1d_grad_weight_op, {x, dy}, for_weight));
  if (g.input_count() == 3) grads.push_back(sum(dy, {0, 1}));
  return grads;
}

// Calls f(place in x, place in w, place in y) for every product of the convolution.
template <class F>
void for_each_product(const ConvDims& d, F f) {
  int64_t group_in = d.group_in(), group_out = d.group_out();
  for (int64_t i = 0; i < d.batch * d.time_out * d.kernel; ++i) {
    int64_t tap = i % d.kernel, row_y = i / d.kernel, t = row_y % d.time_out;
    if (!d.reads(t, tap)) continue;
    int64_t row_x = row_y / d.time_out * d.time + d.input_time(t, tap);
    for (int64_t c = 0; c < d.c_in; ++c) {
      int64_t first = c / group_in * group_out, row_w = tap * group_in + c % group_in;
      for (int64_t o = first; o < first + group_out; ++o) {
        f(row_x * d.c_in + c, row_w * d.c_out + o, row_y * d.c_out + o);
      }
    }
  }
}

void evaluate_conv1d(const EvalView& v) {
  const Tensor &x = v.in(0), &w = v.in(1);
  Tensor& y = v.out();
  if (v.inputs.size() == 3) {
    for (int64_t i = 0; i < y.count(); ++i) y[i] = v.in(2)[i % y.dim(-1)];
  }
  for_each_product(conv_dims(x.shape, w.shape, v.attributes),
                   [&](int64_t i, int64_t j, int64_t k) { y[k] += x[i] * w[j]; });
}

// dy[batch, time_out, c_out], w → x's shape
std::vector<TensorType> infer_conv1d_grad_input(const OpView& v) {
  expect_all_real(v);
  expect_rank_at_least(v, 0, 3);
  expect_rank_at_least(v, 1, 3);
  int64_t c_in = v.in(1).dim(1) * v.attr<int64_t>("groups");
  Shape x{v.in(0).dim(0), positive(v.attributes, "time"), c_in};
  ConvDims d = conv_dims(x, v.in(1).shape, v.attributes);
  expect_shape(v, 0, {d.batch, d.time_out, d.c_out});
  return {{x}};
}

void evaluate_conv1d_grad_input(const EvalView& v) {
  const Tensor &dy = v.in(0), &w = v.in(1);
  Tensor& dx = v.out();
  for_each_product(conv_dims(dx.shape, w.shape, v.attributes),
                   [&](int64_t i, int64_t j, int64_t k) { dx[i] += dy[k] * w[j]; });
}

// x, dy[batch, time_out, c_out] → w's shape
std::vector<TensorType> infer_conv1d_grad_weight(const OpView& v) {
  expect_all_real(v);
  expect_rank_at_least(v, 0, 3);
  expect_rank_at_least(v, 1, 3);
  int64_t group_in = v.in(0).dim(2) / positive(v.attributes, "groups");
  Shape w{positive(v.attributes, "kernel"), group_in, v.in(1).dim(2)};
  ConvDims d = conv_dims(v.in(0).shape, w, v.attributes);
  expect_shape(v, 1, {d.batch, d.time_out, d.c_out});
  return {{w}};
}

void evaluate_conv1d_grad_weight(const EvalView& v) {
  const Tensor &x = v.in(0), &dy = v.in(1);
  Tensor& dw = v.out();
  for_each_product(conv_dims(x.shape, dw.shape, v.attributes),
                   [&](int64_t i, int64_t j, int64_t k) { dw[j] += x[i] * dy[k]; });
}

}  // namespace

constinit const OpDef conv1d_op{
    .name = "conv1d",
    .formula =
        "y[t] = Σₖ x[s t + d k] w[k] + c, n products that read no padding; "
        "α=(n/#y)^-½, β_x=(n/#x)^-½, β_w=(n/#w)^-½, β_c=(#y/c_out)^-½",
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = infer_conv1d,
    .scale = scale_conv1d,
    .grad = grad_conv1d,
    .evaluate = evaluate_conv1d,
    .role = conv_role,
    .defaults = conv_defaults,
    .linear_in = [](const OpView& v, size_t) { return v.inputs.size() == 2; },  // no bias
    .multiplies = first_two_inputs};

constinit const OpDef conv1d_grad_input_op{.name = "conv1d_grad_input",
                                           .formula = "dx[st + dk] = Σ dy[t] w[k]ᵀ",
                                           .min_inputs = 2,
                                           .max_inputs = 2,
                                           .infer = infer_conv1d_grad_input,
                                           .evaluate = evaluate_conv1d_grad_input,
                                           .linear_in = every_input,
                                           .multiplies = every_input};

constinit const OpDef conv1d_grad_weight_op{.name = "conv1d_grad_weight",
                                            .formula = "dw[k] = Σ x[st + dk]ᵀ dy[t]",
                                            .min_inputs = 2,
                                            .max_inputs = 2,
                                            .infer = infer_conv1d_grad_weight,
                                            .evaluate = evaluate_conv1d_grad_weight,
                                            .linear_in = every_input,
                                            .multiplies = every_input};

Value conv1d(Value x, Value w, Value bias, const Conv1dOptions& options) {
  std::vector<Value> inputs{x, w};
  if (bias) inputs.push_back(bias);
  return x.graph->append_one(conv1d_op, inputs, conv_attributes(options));
}

}  // namespace sigma1
