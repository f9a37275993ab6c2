#include "sigma1/ops/recurrent.h"

#include <cmath>

#include "sigma1/ops/recurrent_scale.h"
#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

struct RecurrentDims {
  int64_t batch, time, n_in, h;
};

RecurrentDims recurrent_dims(const OpView& v) {
  for (size_t i = 0; i < v.inputs.size(); ++i) expect_kind(v, i, Kind::real);
  const TensorType &x = v.in(0), &w = v.in(1);
  if (x.rank() != 3) throw Error("x: expected [batch, time, n_in], got {}", to_string(x.shape));
  expect_rank_at_least(v, 1, 3);
  int64_t n_in = x.dim(2), h = w.dim(-1);
  expect_shape(v, 1, {n_in + h, 2, h});
  expect_shape(v, 2, {2, h});
  expect_shape(v, 3, {h});
  return {x.dim(0), x.dim(1), n_in, h};
}

std::vector<TensorType> infer_recurrent(const OpView& v) {
  auto [batch, time, n_in, h] = recurrent_dims(v);
  return {{{batch, time, h}}};
}

// The layer as it is after scaling, with unit weights: what weight_scale says now belongs to the
// plain weights.
Scales scale_recurrent(const OpView& v, const ScaleContext&) {
  auto [batch, time, n_in, h] = recurrent_dims(v);
  RecurrentHighwayMoments moments = recurrent_highway_moments(n_in, h, time);
  auto samples = static_cast<double>(batch);
  return {rsqrt(moments.states),
          {rsqrt(moments.dx), rsqrt(samples * moments.dw), rsqrt(samples * moments.dbias),
           rsqrt(samples * moments.dinitial)}};
}

Role recurrent_role(const OpView&, size_t input) {
  return input == 0 ? Role::activation : input == 1 ? Role::weight : Role::bias;
}

void set_unit_weights(const OpView& v, Attributes& attributes) {
  auto [batch, time, n_in, h] = recurrent_dims(v);
  attributes.set("weight_scale", rsqrt(static_cast<double>(n_in + h)));
}

// As unit scaling uses it, which is what its scale rule speaks of.
Attributes unit_defaults(std::span<const TensorType> inputs) {
  return {{"weight_scale", rsqrt(static_cast<double>(inputs[1].dim(0)))}};
}

Grads grad_recurrent(GradView& g) {
  Attributes attributes = g.attributes();
  Value dy = g.dy();
  return g.graph().append(recurrent_highway_grad_op, {g.x(0), g.x(1), g.x(2), g.x(3), dy},
                          attributes);
}

struct Layer {
  int64_t batch, time, n_in, h;
  double weight_scale;
  const double *x, *w, *bias, *initial;
};

Layer layer_of(const EvalView& v) {
  const Tensor& x = v.in(0);
  return {x.dim(0),
          x.dim(1),
          x.dim(2),
          v.in(3).dim(0),
          v.attr<double>("weight_scale"),
          x.data.data(),
          v.in(1).data.data(),
          v.in(2).data.data(),
          v.in(3).data.data()};
}

// [x_t ; state], what the weights meet.
std::vector<double> operands(const Layer& layer, int64_t row, const double* state) {
  const double* x = layer.x + row * layer.n_in;
  std::vector<double> joined(x, x + layer.n_in);
  joined.insert(joined.end(), state, state + layer.h);
  return joined;
}

struct Gates {
  std::vector<double> u, c;  // [h]
};

Gates gates(const Layer& layer, const std::vector<double>& joined) {
  auto h = static_cast<size_t>(layer.h);
  Gates g{{layer.bias, layer.bias + h}, {layer.bias + h, layer.bias + 2 * h}};
  for (size_t i = 0; i < joined.size(); ++i) {
    const double* w = layer.w + i * 2 * h;
    for (size_t j = 0; j < h; ++j) {
      g.u[j] += layer.weight_scale * joined[i] * w[j];
      g.c[j] += layer.weight_scale * joined[i] * w[h + j];
    }
  }
  for (double& u : g.u) u = 1 / (1 + std::exp(1 - u));
  for (double& c : g.c) c = std::tanh(c);
  return g;
}

// The state before step `row` of all batch · time.
const double* state_before(const Layer& layer, const Tensor& states, int64_t row) {
  return row % layer.time == 0 ? layer.initial : states.data.data() + (row - 1) * layer.h;
}

void compute_states(const Layer& layer, Tensor& states) {
  for (int64_t row = 0; row < layer.batch * layer.time; ++row) {
    const double* before = state_before(layer, states, row);
    Gates g = gates(layer, operands(layer, row, before));
    for (int64_t j = 0; j < layer.h; ++j) {
      double u = g.u[static_cast<size_t>(j)], c = g.c[static_cast<size_t>(j)];
      states[row * layer.h + j] = (1 - u) * before[j] + u * c;
    }
  }
}

void evaluate_recurrent(const EvalView& v) { compute_states(layer_of(v), v.out()); }

std::vector<TensorType> infer_recurrent_grad(const OpView& v) {
  auto [batch, time, n_in, h] = recurrent_dims(v);
  expect_shape(v, 4, {batch, time, h});
  return {v.in(0), v.in(1), v.in(2), v.in(3)};
}

// What went through the gates of one step: adds to the gradients of x, w, bias and the state
// before.
void backward_through_weights(const EvalView& v, const Layer& layer, int64_t row,
                              const std::vector<double>& joined, const std::vector<double>& da,
                              std::vector<double>& dstate) {
  auto columns = static_cast<int64_t>(da.size());
  for (int64_t k = 0; k < columns; ++k) v.out(2)[k] += da[static_cast<size_t>(k)];
  for (int64_t i = 0; i < layer.n_in + layer.h; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < columns; ++k) {
      double scaled = layer.weight_scale * da[static_cast<size_t>(k)];
      sum += scaled * layer.w[i * columns + k];
      v.out(1)[i * columns + k] += scaled * joined[static_cast<size_t>(i)];
    }
    if (i < layer.n_in) {
      v.out(0)[row * layer.n_in + i] = sum;
    } else {
      dstate[static_cast<size_t>(i - layer.n_in)] += sum;
    }
  }
}

void evaluate_recurrent_grad(const EvalView& v) {
  Layer layer = layer_of(v);
  auto h = static_cast<size_t>(layer.h);
  Tensor states({layer.batch, layer.time, layer.h});
  compute_states(layer, states);
  std::vector<double> dstate(h), da(2 * h);
  for (int64_t row = layer.batch * layer.time - 1; row >= 0; --row) {
    const double* before = state_before(layer, states, row);
    std::vector<double> joined = operands(layer, row, before);
    Gates g = gates(layer, joined);
    for (size_t j = 0; j < h; ++j) {
      double u = g.u[j], c = g.c[j];
      double dnext = dstate[j] + v.in(4).data[static_cast<size_t>(row) * h + j];
      da[j] = dnext * (c - before[j]) * u * (1 - u);
      da[h + j] = dnext * u * (1 - c * c);
      dstate[j] = dnext * (1 - u);
    }
    backward_through_weights(v, layer, row, joined, da, dstate);
    if (row % layer.time != 0) continue;
    for (size_t j = 0; j < h; ++j) v.out(3).data[j] += dstate[j];
    dstate.assign(h, 0);
  }
}

bool multiplied_in_gradient(const OpView& v, size_t input) {
  return first_two_inputs(v, input) || last_input(v, input);
}

}  // namespace

constinit const OpDef recurrent_highway_op{
    .name = "recurrent_highway",
    .formula =
        "a=weight_scale·[x_t;s]W+bias, u=σ(a_u−1), s←(1−u)s+u·tanh(a_c); "
        "α, β by mean-field over time",
    .min_inputs = 4,
    .max_inputs = 4,
    .infer = infer_recurrent,
    .scale = scale_recurrent,
    .grad = grad_recurrent,
    .evaluate = evaluate_recurrent,
    .role = recurrent_role,
    .defaults = unit_defaults,
    .unit_attributes = set_unit_weights,
    .multiplies = first_two_inputs};

constinit const OpDef recurrent_highway_grad_op{
    .name = "recurrent_highway_grad",
    .formula = "back-propagation through time: (x, w, bias, initial, dy) → dx, dw, dbias, dinitial",
    .min_inputs = 5,
    .max_inputs = 5,
    .infer = infer_recurrent_grad,
    .evaluate = evaluate_recurrent_grad,
    .linear_in = last_input,
    .multiplies = multiplied_in_gradient};

Value recurrent_highway(Value x, Value w, Value bias, Value initial, double weight_scale) {
  return x.graph->append_one(recurrent_highway_op, {x, w, bias, initial},
                             {{"weight_scale", weight_scale}});
}

}  // namespace sigma1
