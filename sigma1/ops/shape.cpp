#include "sigma1/ops/shape.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sigma1/ops/rules.h"
#include "sigma1/ops/strides.h"

namespace sigma1 {
namespace {

using Axes = std::vector<int64_t>;

// Moved numbers keep their scale, and so do their gradients.
Scales scale_moved(const OpView& v, const ScaleContext&) {
  return {1, std::vector<double>(v.inputs.size(), 1.0)};
}

// Indices are moved whatever they are: doubles count to this limit exactly.
int64_t any_index(const OpView&, size_t) {
  return int64_t{1} << std::numeric_limits<double>::digits;
}

std::vector<TensorType> infer_reshape(const OpView& v) {
  const auto& shape = v.attr<Shape>("shape");
  for (int64_t size : shape) {
    if (size < 1) throw Error("shape: expected positive sizes, got {}", to_string(shape));
  }
  if (element_count(shape) != v.in(0).count()) {
    throw Error("shape: expected one of {} elements like {}, got {}", v.in(0).count(),
                to_string(v.in(0).shape), to_string(shape));
  }
  return {{shape, v.in(0).kind}};
}

Grads grad_reshape(GradView& g) {
  Value dy = g.dy();
  return {reshape(dy, g.x(0).shape())};
}

void evaluate_reshape(const EvalView& v) { v.out().data = v.in(0).data; }

// `order` with its axes counted from the front.
std::vector<int> axis_order(const TensorType& x, const Axes& order) {
  std::vector<int> result;
  for (int64_t axis : order) result.push_back(checked_axis(x, axis));
  std::vector<int> sorted = result, all(x.shape.size());
  std::ranges::sort(sorted);
  std::iota(all.begin(), all.end(), 0);
  if (sorted == all) return result;
  throw Error("order: expected each axis of {} once, got {}", to_string(x.shape), to_string(order));
}

std::vector<TensorType> infer_transpose(const OpView& v) {
  Shape shape;
  for (int axis : axis_order(v.in(0), v.attr<Axes>("order"))) shape.push_back(v.in(0).dim(axis));
  return {{shape, v.in(0).kind}};
}

Grads grad_transpose(GradView& g) {
  std::vector<int> order = axis_order(g.x(0).type(), g.attr<Axes>("order"));
  Axes back(order.size());
  for (int64_t i = 0; int axis : order) back[static_cast<size_t>(axis)] = i++;
  Value dy = g.dy();
  return {transpose(dy, back)};
}

void evaluate_transpose(const EvalView& v) {
  const Tensor& x = v.in(0);
  Tensor& y = v.out();
  Shape strides;
  const Axes& order = v.attr<Axes>("order");
  for (int axis : axis_order({x.shape}, order)) strides.push_back(stride(x.shape, axis));
  for (int64_t i = 0; i < y.count(); ++i) y[i] = x[offset(i, y.shape, strides)];
}

int64_t axis_size(const TensorType& type, int64_t axis) {
  return type.dim(checked_axis(type, axis));
}

TensorType resized(TensorType type, int64_t axis, int64_t size) {
  type.shape[static_cast<size_t>(checked_axis(type, axis))] = size;
  return type;
}

// Calls f(place in whole, place in part) for a part that lies from `begin` on along one axis.
template <class F>
void for_each_in_part(const Tensor& whole, const Tensor& part, int64_t axis, int64_t begin, F f) {
  int64_t inner = stride(whole.shape, checked_axis({whole.shape}, axis));
  int64_t whole_size = axis_size({whole.shape}, axis) * inner;
  int64_t part_size = axis_size({part.shape}, axis) * inner;
  for (int64_t i = 0; i < part.count(); ++i) {
    f(i / part_size * whole_size + begin * inner + i % part_size, i);
  }
}

void expect_part(int64_t begin, int64_t end, int64_t size) {
  if (0 <= begin && begin < end && end <= size) return;
  throw Error("expected a part within [0, {}), got [{}, {})", size, begin, end);
}

std::vector<TensorType> infer_slice(const OpView& v) {
  auto axis = v.attr<int64_t>("axis"), begin = v.attr<int64_t>("begin"),
       end = v.attr<int64_t>("end");
  expect_part(begin, end, axis_size(v.in(0), axis));
  return {resized(v.in(0), axis, end - begin)};
}

// 1 / rms of a unit-scale part in a whole that is zero elsewhere.
double unit_factor(int64_t part, int64_t whole) {
  return std::sqrt(static_cast<double>(whole) / static_cast<double>(part));
}

// The gradient is zero outside the part.
Scales scale_slice(const OpView& v, const ScaleContext&) {
  int64_t part = v.attr<int64_t>("end") - v.attr<int64_t>("begin");
  return {1, {unit_factor(part, axis_size(v.in(0), v.attr<int64_t>("axis")))}};
}

Grads grad_slice(GradView& g) {
  auto axis = g.attr<int64_t>("axis");
  Value dy = g.dy();
  return {unslice(dy, axis, g.attr<int64_t>("begin"), axis_size(g.x(0).type(), axis))};
}

void evaluate_slice(const EvalView& v) {
  for_each_in_part(v.in(0), v.out(), v.attr<int64_t>("axis"), v.attr<int64_t>("begin"),
                   [&](int64_t whole, int64_t part) { v.out()[part] = v.in(0)[whole]; });
}

std::vector<TensorType> infer_unslice(const OpView& v) {
  expect_kind(v, 0, Kind::real);
  auto axis = v.attr<int64_t>("axis"), begin = v.attr<int64_t>("begin");
  auto total = v.attr<int64_t>("total"), part = axis_size(v.in(0), axis);
  expect_part(begin, begin + part, total);
  return {resized(v.in(0), axis, total)};
}

// Slice's with the directions exchanged.
Scales scale_unslice(const OpView& v, const ScaleContext&) {
  int64_t part = axis_size(v.in(0), v.attr<int64_t>("axis"));
  return {unit_factor(part, v.attr<int64_t>("total")), {1.0}};
}

Grads grad_unslice(GradView& g) {
  auto axis = g.attr<int64_t>("axis"), begin = g.attr<int64_t>("begin");
  int64_t end = begin + axis_size(g.x(0).type(), axis);
  Value dy = g.dy();
  return {slice(dy, axis, begin, end)};
}

void evaluate_unslice(const EvalView& v) {
  for_each_in_part(v.out(), v.in(0), v.attr<int64_t>("axis"), v.attr<int64_t>("begin"),
                   [&](int64_t whole, int64_t part) { v.out()[whole] = v.in(0)[part]; });
}

std::vector<TensorType> infer_concat(const OpView& v) {
  auto axis = v.attr<int64_t>("axis");
  int64_t total = axis_size(v.in(0), axis);
  for (size_t i = 1; i < v.inputs.size(); ++i) {
    expect_kind(v, i, v.in(0).kind);
    expect_rank_at_least(v, i, v.in(0).rank());
    int64_t size = v.in(i).dim(checked_axis(v.in(0), axis));
    expect_shape(v, i, resized(v.in(0), axis, size).shape);
    total += size;
  }
  return {resized(v.in(0), axis, total)};
}

Grads grad_concat(GradView& g) {
  auto axis = g.attr<int64_t>("axis");
  Value dy = g.dy();
  Grads grads;
  int64_t begin = 0;
  for (size_t i = 0; i < g.input_count(); ++i) {
    int64_t end = begin + axis_size(g.x(i).type(), axis);
    grads.push_back(slice(dy, axis, begin, end));
    begin = end;
  }
  return grads;
}

void evaluate_concat(const EvalView& v) {
  auto axis = v.attr<int64_t>("axis");
  int64_t begin = 0;
  for (const Tensor* x : v.inputs) {
    for_each_in_part(v.out(), *x, axis, begin,
                     [&](int64_t whole, int64_t part) { v.out()[whole] = (*x)[part]; });
    begin += axis_size({x->shape}, axis);
  }
}

std::vector<TensorType> infer_split(const OpView& v) {
  auto axis = v.attr<int64_t>("axis"), parts = v.attr<int64_t>("parts");
  int64_t size = axis_size(v.in(0), axis);
  if (parts < 1 || size % parts != 0) {
    throw Error("parts: expected a divisor of the axis's {}, got {}", size, parts);
  }
  return std::vector<TensorType>(static_cast<size_t>(parts), resized(v.in(0), axis, size / parts));
}

Grads grad_split(GradView& g) {
  std::vector<Value> parts;
  auto count = static_cast<size_t>(g.attr<int64_t>("parts"));
  for (size_t i = 0; i < count; ++i) parts.push_back(g.dy(i));
  return {concat(parts, g.attr<int64_t>("axis"))};
}

void evaluate_split(const EvalView& v) {
  auto axis = v.attr<int64_t>("axis");
  int64_t begin = 0;
  for (Tensor& y : v.outputs) {
    for_each_in_part(v.in(0), y, axis, begin,
                     [&](int64_t whole, int64_t part) { y[part] = v.in(0)[whole]; });
    begin += axis_size({y.shape}, axis);
  }
}

Attributes reshape_defaults(std::span<const TensorType> inputs) {
  return {{"shape", inputs[0].shape}};
}

Attributes transpose_defaults(std::span<const TensorType> inputs) {
  std::vector<int64_t> order;
  for (int axis = inputs[0].rank() - 1; axis >= 0; --axis) order.push_back(axis);
  return {{"order", order}};
}

// The first half of the first axis.
Attributes slice_defaults(std::span<const TensorType> inputs) {
  return {{"axis", int64_t{0}}, {"begin", int64_t{0}}, {"end", (inputs[0].dim(0) + 1) / 2}};
}

Attributes unslice_defaults(std::span<const TensorType> inputs) {
  return {{"axis", int64_t{0}}, {"begin", int64_t{0}}, {"total", 2 * inputs[0].dim(0)}};
}

Attributes concat_defaults(std::span<const TensorType>) { return {{"axis", int64_t{0}}}; }

Attributes split_defaults(std::span<const TensorType> inputs) {
  return {{"axis", int64_t{0}}, {"parts", inputs[0].dim(0)}};
}

}  // namespace

constinit const OpDef reshape_op{.name = "reshape",
                                 .formula = "x in another shape; α=1, β=1",
                                 .infer = infer_reshape,
                                 .scale = scale_moved,
                                 .grad = grad_reshape,
                                 .evaluate = evaluate_reshape,
                                 .index_limit = any_index,
                                 .defaults = reshape_defaults,
                                 .linear_in = first_input};

constinit const OpDef transpose_op{.name = "transpose",
                                   .formula = "x with its axes in another order; α=1, β=1",
                                   .infer = infer_transpose,
                                   .scale = scale_moved,
                                   .grad = grad_transpose,
                                   .evaluate = evaluate_transpose,
                                   .index_limit = any_index,
                                   .defaults = transpose_defaults,
                                   .linear_in = first_input};

constinit const OpDef slice_op{.name = "slice",
                               .formula = "k of an axis's n; α=1, β=(n/k)^½",
                               .infer = infer_slice,
                               .scale = scale_slice,
                               .grad = grad_slice,
                               .evaluate = evaluate_slice,
                               .index_limit = any_index,
                               .defaults = slice_defaults,
                               .linear_in = first_input};

constinit const OpDef unslice_op{
    .name = "unslice",
    .formula = "x as k of an axis's n, zeros elsewhere; α=(n/k)^½, β=1",
    .infer = infer_unslice,
    .scale = scale_unslice,
    .grad = grad_unslice,
    .evaluate = evaluate_unslice,
    .defaults = unslice_defaults,
    .linear_in = first_input};

constinit const OpDef concat_op{
    .name = "concat",
    .formula = "x₁, x₂, … one after another along an axis; α=1, βᵢ=1",
    .max_inputs = std::numeric_limits<size_t>::max(),
    .infer = infer_concat,
    .scale = scale_moved,
    .grad = grad_concat,
    .evaluate = evaluate_concat,
    .index_limit = any_index,
    .defaults = concat_defaults,
    .linear_in = [](const OpView& v, size_t) { return v.inputs.size() == 1; }};

constinit const OpDef split_op{.name = "split",
                               .formula = "x in equal parts along an axis; α=1, β=1",
                               .infer = infer_split,
                               .scale = scale_moved,
                               .grad = grad_split,
                               .evaluate = evaluate_split,
                               .index_limit = any_index,
                               .defaults = split_defaults,
                               .linear_in = first_input};

Value reshape(Value x, Shape shape) {
  return x.graph->append_one(reshape_op, {x}, {{"shape", std::move(shape)}});
}

Value transpose(Value x, std::vector<int64_t> order) {
  return x.graph->append_one(transpose_op, {x}, {{"order", std::move(order)}});
}

Value slice(Value x, int64_t axis, int64_t begin, int64_t end) {
  return x.graph->append_one(slice_op, {x}, {{"axis", axis}, {"begin", begin}, {"end", end}});
}

Value unslice(Value x, int64_t axis, int64_t begin, int64_t total) {
  return x.graph->append_one(unslice_op, {x}, {{"axis", axis}, {"begin", begin}, {"total", total}});
}

Value concat(std::vector<Value> parts, int64_t axis) {
  if (parts.empty()) throw Error("concat: expected at least one part, got none");
  return parts.front().graph->append_one(concat_op, parts, {{"axis", axis}});
}

std::vector<Value> split(Value x, int64_t axis, int64_t parts) {
  return x.graph->append(split_op, {x}, {{"axis", axis}, {"parts", parts}});
}

}  // namespace sigma1
