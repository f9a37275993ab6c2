#include "sigma1/ops/norm.h"

#include <cmath>

#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

// Whether the mean is taken out before the scale is.
enum class Centre { mean, zero };

struct Statistics {
  double centre, inverse_scale;
};

template <Centre centre>
Statistics statistics(const double* x, int64_t n, double eps) {
  auto count = static_cast<double>(n);
  double mean = 0, square = 0;
  if (centre == Centre::mean) {
    for (int64_t j = 0; j < n; ++j) mean += x[j] / count;
  }
  // Around the mean rather than E[x²] − μ², which is the same but for rounding.
  for (int64_t j = 0; j < n; ++j) square += (x[j] - mean) * (x[j] - mean) / count;
  return {mean, rsqrt(square + eps)};
}

// x[…, n], then w[n], then c[n].
std::vector<TensorType> infer_norm(const OpView& v) {
  expect_rank_at_least(v, 0, 1);
  expect_kind(v, 0, Kind::real);
  for (size_t i = 1; i < v.inputs.size(); ++i) expect_shape(v, i, {v.in(0).dim(-1)});
  double eps = v.attr<double>("eps");
  if (!(eps >= 0)) throw Error("eps: expected a number from 0 up, got {}", eps);
  return {v.in(0)};
}

// Table A.2. The bias starts at zero and the gain at one, so that the normalised row sets the
// scale.
Scales scale_norm(const OpView& v, const ScaleContext&) {
  Scales scales{1, {1}};
  auto rows = static_cast<double>(v.in(0).rows());
  for (size_t i = 1; i < v.inputs.size(); ++i) scales.beta.push_back(rsqrt(rows));
  return scales;
}

Role norm_role(const OpView&, size_t input) {
  return input == 0 ? Role::activation : input == 1 ? Role::weight : Role::bias;
}

Attributes norm_defaults(std::span<const TensorType>) { return {{"eps", kNormEpsilon}}; }

// What is local to a row is one op, what sums over rows another: a device may run the first among
// the row's other work, and all of the second together.
template <const OpDef& grad_op, const OpDef& weight_grad_op>
Grads grad_norm(GradView& g) {
  Attributes attributes = g.attributes();
  std::vector<Value> inputs{g.x(0)};
  if (g.input_count() > 1) inputs.push_back(g.x(1));
  Value dy = g.dy();
  inputs.push_back(dy);
  Grads grads{g.graph().append_one(grad_op, inputs, attributes)};
  if (g.input_count() == 1) return grads;
  attributes.set("has_bias", g.input_count() > 2);
  for (Value of_column : g.graph().append(weight_grad_op, {g.x(0), dy}, attributes)) {
    grads.push_back(of_column);
  }
  return grads;
}

template <Centre centre>
void evaluate_norm(const EvalView& v) {
  int64_t n = v.in(0).dim(-1);
  bool has_w = v.inputs.size() > 1, has_c = v.inputs.size() > 2;
  for (int64_t row = 0; row < v.out().count(); row += n) {
    const double* x = v.in(0).data.data() + row;
    Statistics s = statistics<centre>(x, n, v.attr<double>("eps"));
    for (int64_t j = 0; j < n; ++j) {
      double xhat = (x[j] - s.centre) * s.inverse_scale;
      v.out()[row + j] = (has_w ? v.in(1)[j] : 1) * xhat + (has_c ? v.in(2)[j] : 0);
    }
  }
}

// x[…, n], perhaps w[n], dy → dx
std::vector<TensorType> infer_norm_grad(const OpView& v) {
  expect_rank_at_least(v, 0, 1);
  if (v.inputs.size() > 2) expect_shape(v, 1, {v.in(0).dim(-1)});
  expect_shape(v, v.inputs.size() - 1, v.in(0).shape);
  return {v.in(0)};
}

// What the normalisation removes from x it removes from the gradient: the direction of x̂, and the
// mean where that is taken out.
template <Centre centre>
void evaluate_norm_grad(const EvalView& v) {
  int64_t n = v.in(0).dim(-1);
  auto count = static_cast<double>(n);
  bool has_w = v.inputs.size() > 2;
  for (int64_t row = 0; row < v.in(0).count(); row += n) {
    const double* x = v.in(0).data.data() + row;
    const double* dy = v.in(v.inputs.size() - 1).data.data() + row;
    Statistics s = statistics<centre>(x, n, v.attr<double>("eps"));
    auto xhat = [&](int64_t j) { return (x[j] - s.centre) * s.inverse_scale; };
    auto dxhat = [&](int64_t j) { return has_w ? dy[j] * v.in(1)[j] : dy[j]; };
    double mean = 0, along = 0;
    for (int64_t j = 0; j < n; ++j) {
      if (centre == Centre::mean) mean += dxhat(j) / count;
      along += dxhat(j) * xhat(j) / count;
    }
    for (int64_t j = 0; j < n; ++j) {
      v.out()[row + j] = s.inverse_scale * (dxhat(j) - mean - xhat(j) * along);
    }
  }
}

// x[…, n], dy → dw[n], and dc[n] where has_bias
std::vector<TensorType> infer_norm_weight_grad(const OpView& v) {
  expect_rank_at_least(v, 0, 1);
  expect_shape(v, 1, v.in(0).shape);
  TensorType column{{v.in(0).dim(-1)}};
  return std::vector<TensorType>(v.attr<bool>("has_bias") ? 2 : 1, column);
}

template <Centre centre>
void evaluate_norm_weight_grad(const EvalView& v) {
  int64_t n = v.in(0).dim(-1);
  for (int64_t row = 0; row < v.in(0).count(); row += n) {
    const double *x = v.in(0).data.data() + row, *dy = v.in(1).data.data() + row;
    Statistics s = statistics<centre>(x, n, v.attr<double>("eps"));
    for (int64_t j = 0; j < n; ++j) {
      v.out()[j] += dy[j] * (x[j] - s.centre) * s.inverse_scale;
      if (v.attr<bool>("has_bias")) v.out(1)[j] += dy[j];
    }
  }
}

}  // namespace

constinit const OpDef layer_norm_grad_op{.name = "layer_norm_grad",
                                         .formula = "(dx̂ − mean(dx̂) − x̂ mean(dx̂ x̂)) / σ",
                                         .min_inputs = 2,
                                         .max_inputs = 3,
                                         .infer = infer_norm_grad,
                                         .evaluate = evaluate_norm_grad<Centre::mean>,
                                         .linear_in = last_input};

constinit const OpDef rms_norm_grad_op{.name = "rms_norm_grad",
                                       .formula = "(dx̂ − x̂ mean(dx̂ x̂)) / rms(x)",
                                       .min_inputs = 2,
                                       .max_inputs = 3,
                                       .infer = infer_norm_grad,
                                       .evaluate = evaluate_norm_grad<Centre::zero>,
                                       .linear_in = last_input};

constinit const OpDef layer_norm_weight_grad_op{.name = "layer_norm_weight_grad",
                                                .formula = "Σ dy x̂, and Σ dy where there is a bias",
                                                .min_inputs = 2,
                                                .max_inputs = 2,
                                                .infer = infer_norm_weight_grad,
                                                .evaluate = evaluate_norm_weight_grad<Centre::mean>,
                                                .linear_in = last_input};

constinit const OpDef rms_norm_weight_grad_op{.name = "rms_norm_weight_grad",
                                              .formula = "Σ dy x̂",
                                              .min_inputs = 2,
                                              .max_inputs = 2,
                                              .infer = infer_norm_weight_grad,
                                              .evaluate = evaluate_norm_weight_grad<Centre::zero>,
                                              .linear_in = last_input};

constinit const OpDef layer_norm_op{
    .name = "layer_norm",
    .formula = "c + w (x − μ)/σ; α=1, β_x=1, β_w=β_c=b^-½",
    .min_inputs = 1,
    .max_inputs = 3,
    .infer = infer_norm,
    .scale = scale_norm,
    .grad = grad_norm<layer_norm_grad_op, layer_norm_weight_grad_op>,
    .evaluate = evaluate_norm<Centre::mean>,
    .role = norm_role,
    .defaults = norm_defaults};

constinit const OpDef rms_norm_op{.name = "rms_norm",
                                  .formula = "w x/rms(x); α=1, β_x=1, β_w=b^-½",
                                  .min_inputs = 1,
                                  .max_inputs = 2,
                                  .infer = infer_norm,
                                  .scale = scale_norm,
                                  .grad = grad_norm<rms_norm_grad_op, rms_norm_weight_grad_op>,
                                  .evaluate = evaluate_norm<Centre::zero>,
                                  .role = norm_role,
                                  .defaults = norm_defaults};

Value layer_norm(Value x, Value w, Value c, double eps) {
  if (c && !w) throw Error("layer_norm: expected w with c");
  std::vector<Value> inputs{x};
  if (w) inputs.push_back(w);
  if (c) inputs.push_back(c);
  return x.graph->append_one(layer_norm_op, inputs, {{"eps", eps}});
}

Value rms_norm(Value x, Value w, double eps) {
  std::vector<Value> inputs{x};
  if (w) inputs.push_back(w);
  return x.graph->append_one(rms_norm_op, inputs, {{"eps", eps}});
}

}  // namespace sigma1
