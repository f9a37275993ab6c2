#include "sigma1/ops/recurrent.h"

#include <algorithm>
#include <array>

#include "sigma1/backend/cpu/gemm.h"
#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/backend/cpu/whole.h"
#include "sigma1/base/parallel.h"

namespace sigma1::cpu {
namespace {

struct Dims {
  int64_t batch, time, n_in, h;
  float weight_scale;

  explicit Dims(const Launch& launch)
      : batch(launch.in(0).shape[0]),
        time(launch.in(0).shape[1]),
        n_in(launch.in(0).shape[2]),
        h(launch.in(3).shape[0]),
        weight_scale(static_cast<float>(launch.attr<double>("weight_scale"))) {}

  int64_t state_at(int64_t row, int64_t t) const { return (row * (time + 1) + t) * h; }
  int64_t gates_at(int64_t row, int64_t t) const { return (row * time + t) * 2 * h; }
};

struct Plan {
  Dims dims;
  Arena arena;
  std::array<float*, 5> inputs{};
  std::array<float*, 4> outputs{};
  float* bias;    // [2, h], the gate's less 1
  float* gates;   // [batch, time, 2, h]
  float* states;  // [batch, time + 1, h], the initial one first
  // Of the gradient:
  float *transposed = nullptr, *dstate = nullptr, *dbias = nullptr;

  explicit Plan(const Launch& launch) : dims(launch), arena(launch.workspace) {
    for (size_t i = 0; i < launch.inputs.size(); ++i) inputs[i] = arena.like(launch.in(i));
    for (size_t o = 0; o < launch.outputs.size(); ++o) outputs[o] = arena.like(launch.out(o));
    auto [batch, time, n_in, h, weight_scale] = dims;
    bias = arena.floats(2 * h);
    gates = arena.floats(batch * time * 2 * h);
    states = arena.floats(batch * (time + 1) * h);
    if (launch.inputs.size() < 5) return;
    transposed = arena.floats(2 * h * h);
    dstate = arena.floats(batch * h);
    dbias = arena.floats(batch * 2 * h);
  }
};

int64_t workspace(const Launch& launch) { return Plan(launch).arena.bytes(); }

// Rows of the batch that go through time together, on one thread. A product of few rows costs
// hardly less than one of eight, but the paper's eight leave no other work to share.
template <class Body>
void for_each_block(const Dims& dims, Body body) {
  int64_t rows = std::clamp<int64_t>(dims.batch / 8, 4, 16);
  parallel_for(static_cast<size_t>(dims.batch), static_cast<size_t>(rows),
               [&](size_t begin, size_t end) {
                 body(static_cast<int64_t>(begin), static_cast<int64_t>(end));
               });
}

// From pre-activations without bias to gates, and from the state to the next.
void step_row(const Plan& plan, float* gates, const float* before, float* after) {
  const VectorKernels& v = vectors();
  int64_t h = plan.dims.h;
  float *u = gates, *c = gates + h;
  v.add_scaled(plan.bias, gates, 2 * h, 1);
  v.activation(Activation::sigmoid, u, u, h, 1);
  v.activation(Activation::tanh, c, c, h, 1);
  v.combine(c, before, after, h, 1, -1);
  v.multiply(u, after, after, h, 1);
  v.add_scaled(before, after, h, 1);
}

// Rows [begin, end) of the batch through all steps.
void advance(const Plan& plan, const float* w, int64_t begin, int64_t end) {
  const Dims& dims = plan.dims;
  Gemm product{.m = end - begin,
               .n = 2 * dims.h,
               .k = dims.h,
               .lda = (dims.time + 1) * dims.h,
               .ldb = 2 * dims.h,
               .ldc = dims.time * 2 * dims.h,
               .alpha = dims.weight_scale,
               .beta = 1};
  const float* state_weights = w + dims.n_in * 2 * dims.h;
  for (int64_t t = 0; t < dims.time; ++t) {
    gemm(product, plan.states + dims.state_at(begin, t), state_weights,
         plan.gates + dims.gates_at(begin, t));
    for (int64_t row = begin; row < end; ++row) {
      float* before = plan.states + dims.state_at(row, t);
      step_row(plan, plan.gates + dims.gates_at(row, t), before, before + dims.h);
    }
  }
}

// Everything but the steps themselves, which begin with what x gives to all gates at once.
void prepare(const Launch& launch, const Plan& plan, const float* x, const float* w) {
  auto [batch, time, n_in, h, weight_scale] = plan.dims;
  const float* bias = load(launch.in(2), 0, 2 * h, plan.bias);
  for (int64_t i = 0; i < 2 * h; ++i) plan.bias[i] = bias[i] - (i < h ? 1.0F : 0.0F);
  const float* initial = load_whole(launch.in(3), plan.inputs[3]);
  for (int64_t row = 0; row < batch; ++row) {
    std::copy_n(initial, h, plan.states + plan.dims.state_at(row, 0));
  }
  gemm(Gemm::packed(batch * time, 2 * h, n_in, false, false, weight_scale), x, w, plan.gates);
}

void run_recurrent(const Launch& launch) {
  Plan plan(launch);
  const Dims& dims = plan.dims;
  const float* x = load_whole(launch.in(0), plan.inputs[0]);
  const float* w = load_whole(launch.in(1), plan.inputs[1]);
  float* y = target_whole(launch.out(), plan.outputs[0]);
  prepare(launch, plan, x, w);
  for_each_block(dims, [&](int64_t begin, int64_t end) {
    advance(plan, w, begin, end);
    for (int64_t row = begin; row < end; ++row) {
      vectors().scale(plan.states + dims.state_at(row, 1), y + row * dims.time * dims.h,
                      dims.time * dims.h, launch.factor());
    }
  });
  store_whole(launch, 0, y);
}

// The gates give way to the gradients of their pre-activations; dstate, the gradient of the state
// after the step, to what reaches the one before it without passing the weights.
void gates_grad(float* gates, const float* before, const float* dy, float* dstate, int64_t h) {
  for (int64_t j = 0; j < h; ++j) {
    float u = gates[j], c = gates[h + j], dnext = dstate[j] + dy[j];
    gates[j] = dnext * (c - before[j]) * u * (1 - u);
    gates[h + j] = dnext * u * (1 - c * c);
    dstate[j] = dnext * (1 - u);
  }
}

void retreat(const Plan& plan, const float* dy, int64_t begin, int64_t end) {
  const Dims& dims = plan.dims;
  int64_t h = dims.h;
  std::fill(plan.dstate + begin * h, plan.dstate + end * h, 0.0F);
  std::fill(plan.dbias + begin * 2 * h, plan.dbias + end * 2 * h, 0.0F);
  Gemm product{.m = end - begin,
               .n = h,
               .k = 2 * h,
               .lda = dims.time * 2 * h,
               .ldb = h,
               .ldc = h,
               .alpha = dims.weight_scale,
               .beta = 1};
  for (int64_t t = dims.time - 1; t >= 0; --t) {
    for (int64_t row = begin; row < end; ++row) {
      float* gates = plan.gates + dims.gates_at(row, t);
      gates_grad(gates, plan.states + dims.state_at(row, t), dy + (row * dims.time + t) * h,
                 plan.dstate + row * h, h);
      vectors().add_scaled(gates, plan.dbias + row * 2 * h, 2 * h, 1);
    }
    gemm(product, plan.gates + dims.gates_at(begin, t), plan.transposed, plan.dstate + begin * h);
  }
}

// The state's weights transposed: a product of few rows is twice as fast with them.
void transpose_state_weights(const Plan& plan, const float* w) {
  int64_t h = plan.dims.h;
  const float* from = w + plan.dims.n_in * 2 * h;
  parallel_for(static_cast<size_t>(2 * h), 32, [&](size_t begin, size_t end) {
    for (auto k = static_cast<int64_t>(begin); k < static_cast<int64_t>(end); ++k) {
      for (int64_t i = 0; i < h; ++i) plan.transposed[k * h + i] = from[i * 2 * h + k];
    }
  });
}

// All steps at once, from the gradients of the pre-activations that stand in plan.gates.
void grad_operands(const Launch& launch, const Plan& plan, const float* x, const float* w,
                   float* dx, float* dw) {
  auto [batch, time, n_in, h, weight_scale] = plan.dims;
  float dw_factor = weight_scale * launch.factor(1);
  gemm(Gemm::packed(batch * time, n_in, 2 * h, false, true, weight_scale * launch.factor(0)),
       plan.gates, w, dx);
  gemm(Gemm::packed(n_in, 2 * h, batch * time, true, false, dw_factor), x, plan.gates, dw);
  Gemm product = Gemm::packed(h, 2 * h, time, true, false, dw_factor);
  for (int64_t row = 0; row < batch; ++row) {
    gemm(product, plan.states + plan.dims.state_at(row, 0), plan.gates + plan.dims.gates_at(row, 0),
         dw + n_in * 2 * h);
    product.beta = 1;
  }
}

void run_recurrent_grad(const Launch& launch) {
  Plan plan(launch);
  const Dims& dims = plan.dims;
  const float* x = load_whole(launch.in(0), plan.inputs[0]);
  const float* w = load_whole(launch.in(1), plan.inputs[1]);
  const float* dy = load_whole(launch.in(4), plan.inputs[4]);
  std::array<float*, 4> outputs{};
  for (size_t o = 0; o < 4; ++o) outputs[o] = target_whole(launch.out(o), plan.outputs[o]);
  prepare(launch, plan, x, w);
  transpose_state_weights(plan, w);
  for_each_block(dims, [&](int64_t begin, int64_t end) {
    advance(plan, w, begin, end);
    retreat(plan, dy, begin, end);
  });
  grad_operands(launch, plan, x, w, outputs[0], outputs[1]);
  sum_rows(plan.dbias, dims.batch, 2 * dims.h, 2 * dims.h, launch.factor(2), outputs[2]);
  sum_rows(plan.dstate, dims.batch, dims.h, dims.h, launch.factor(3), outputs[3]);
  for (size_t o = 0; o < 4; ++o) store_whole(launch, o, outputs[o]);
}

constexpr Kernel kKernels[] = {
    {&recurrent_highway_op, run_recurrent, workspace},
    {&recurrent_highway_grad_op, run_recurrent_grad, workspace},
};

}  // namespace

std::span<const Kernel> recurrent_kernels() { return kKernels; }

}  // namespace sigma1::cpu
