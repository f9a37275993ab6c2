#include "sigma1/ops/reduce.h"

#include <cmath>

#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/rules.h"
#include "sigma1/ops/strides.h"

namespace sigma1 {
namespace {

using Axes = std::vector<int64_t>;

// A full tensor beside the one that lacks some of its axes; without axes, two of one shape.
struct Reduction {
  Shape reduced;
  Shape strides;  // of the reduced tensor, per axis of the full one: 0 along the axes it lacks
  double n = 1;   // elements of the full tensor for each of the reduced
};

std::vector<bool> lacking_axes(const Shape& full, const Axes& axes) {
  std::vector<bool> lacking(full.size());
  for (int64_t each : axes) {
    auto axis = static_cast<size_t>(checked_axis({full}, each));
    if (lacking[axis]) {
      throw Error("axes: expected each axis of {} at most once, got {} twice", to_string(full),
                  axis);
    }
    lacking[axis] = true;
  }
  return lacking;
}

Reduction reduction(const Shape& full, const Axes& axes) {
  std::vector<bool> lacking = lacking_axes(full, axes);
  Reduction result{{}, Shape(full.size()), 1};
  int64_t step = 1;
  for (size_t axis = full.size(); axis-- > 0;) {
    if (lacking[axis]) {
      result.n *= static_cast<double>(full[axis]);
      continue;
    }
    result.reduced.insert(result.reduced.begin(), full[axis]);
    result.strides[axis] = step;
    step *= full[axis];
  }
  return result;
}

Reduction reduction_of_input(const OpView& v) {
  return reduction(v.in(0).shape, v.attr<Axes>("axes"));
}

std::vector<TensorType> infer_sum(const OpView& v) {
  expect_kind(v, 0, Kind::real);
  return {{reduction_of_input(v).reduced}};
}

// Table A.2.
Scales scale_sum(const OpView& v, const ScaleContext&) {
  return {rsqrt(reduction_of_input(v).n), {1.0}};
}

Grads grad_sum(GradView& g) {
  Value dy = g.dy();
  return {broadcast(dy, g.x(0).shape(), g.attr<Axes>("axes"))};
}

void evaluate_sum(const EvalView& v) {
  const Tensor& x = v.in(0);
  Reduction r = reduction(x.shape, v.attr<Axes>("axes"));
  for (int64_t i = 0; i < x.count(); ++i) v.out()[offset(i, x.shape, r.strides)] += x[i];
}

// Sum's factors with the division by n undone, in either direction.
Scales scale_mean(const OpView& v, const ScaleContext&) {
  double n = reduction_of_input(v).n;
  return {std::sqrt(n), {n}};
}

Grads grad_mean(GradView& g) {
  Value dy = g.dy();
  Shape full = g.x(0).shape();
  auto axes = g.attr<Axes>("axes");
  Value repeated = broadcast(dy, full, axes);
  return {scale(repeated, 1 / reduction(full, axes).n)};
}

void evaluate_mean(const EvalView& v) {
  evaluate_sum(v);
  double n = reduction(v.in(0).shape, v.attr<Axes>("axes")).n;
  for (double& y : v.out().data) y /= n;
}

Reduction reduction_of_output(const OpView& v) {
  return reduction(v.attr<Shape>("shape"), v.attr<Axes>("axes"));
}

std::vector<TensorType> infer_broadcast(const OpView& v) {
  expect_kind(v, 0, Kind::real);
  const auto& shape = v.attr<Shape>("shape");
  for (int64_t size : shape) {
    if (size < 1) throw Error("shape: expected positive sizes, got {}", to_string(shape));
  }
  expect_shape(v, 0, reduction_of_output(v).reduced);
  return {{shape}};
}

// Sum's with the directions exchanged.
Scales scale_broadcast(const OpView& v, const ScaleContext&) {
  return {1, {rsqrt(reduction_of_output(v).n)}};
}

Grads grad_broadcast(GradView& g) {
  Value dy = g.dy();
  return {sum(dy, g.attr<Axes>("axes"))};
}

void evaluate_broadcast(const EvalView& v) {
  Tensor& y = v.out();
  Reduction r = reduction(y.shape, v.attr<Axes>("axes"));
  for (int64_t i = 0; i < y.count(); ++i) y[i] = v.in(0)[offset(i, y.shape, r.strides)];
}

Attributes sum_defaults(std::span<const TensorType>) {
  return {{"axes", std::vector<int64_t>{-1}}};
}

// Some rows, so that there is something to see.
Attributes broadcast_defaults(std::span<const TensorType> inputs) {
  Shape shape{16};
  shape.insert(shape.end(), inputs[0].shape.begin(), inputs[0].shape.end());
  return {{"shape", shape}, {"axes", std::vector<int64_t>{0}}};
}

}  // namespace

constinit const OpDef sum_op{.name = "sum",
                             .formula = "Σ xᵢ of n terms; α=n^-½, β=1",
                             .infer = infer_sum,
                             .scale = scale_sum,
                             .grad = grad_sum,
                             .evaluate = evaluate_sum,
                             .defaults = sum_defaults,
                             .linear_in = first_input};

constinit const OpDef mean_op{.name = "mean",
                              .formula = "Σ xᵢ / n of n terms; α=n^½, β=n",
                              .infer = infer_sum,
                              .scale = scale_mean,
                              .grad = grad_mean,
                              .evaluate = evaluate_mean,
                              .defaults = sum_defaults,
                              .linear_in = first_input};

constinit const OpDef broadcast_op{.name = "broadcast",
                                   .formula = "x repeated n times; α=1, β=n^-½",
                                   .infer = infer_broadcast,
                                   .scale = scale_broadcast,
                                   .grad = grad_broadcast,
                                   .evaluate = evaluate_broadcast,
                                   .defaults = broadcast_defaults,
                                   .linear_in = first_input};

Value sum(Value x, std::vector<int64_t> axes) {
  return x.graph->append_one(sum_op, {x}, {{"axes", std::move(axes)}});
}

Value mean(Value x, std::vector<int64_t> axes) {
  return x.graph->append_one(mean_op, {x}, {{"axes", std::move(axes)}});
}

Value broadcast(Value x, Shape shape, std::vector<int64_t> axes) {
  return x.graph->append_one(broadcast_op, {x},
                             {{"shape", std::move(shape)}, {"axes", std::move(axes)}});
}

}  // namespace sigma1
