// The recurrent highway layer. What x gives to all gates is one product; then one block goes
// through time for each sample, and back for the gradient. The gradients of operands and weights
// are again products over all steps at once.
#include "sigma1/ops/recurrent.h"

#include <algorithm>

#include "sigma1/backend/cuda/gemm.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/product.cuh"
#include "sigma1/backend/cuda/recurrent_steps.cuh"

namespace sigma1::cuda {
namespace {

// The arrays of the steps in the workspace, and the products before and after them, which share
// one room.
struct Plan {
  RecurrentSteps steps;
  std::byte* begin;
  int64_t bytes = 0;
  std::span<std::byte> room;

  explicit Plan(const Launch& launch) : begin(launch.workspace.data()) {
    const Shape& x = launch.in(0).shape;
    int64_t batch = x[0], time = x[1], n_in = x[2], h = launch.in(3).shape[0];
    bool is_gradient = launch.inputs.size() == 5;
    steps.batch = static_cast<int>(batch);
    steps.time = static_cast<int>(time);
    steps.n_in = static_cast<int>(n_in);
    steps.h = static_cast<int>(h);
    steps.weight_scale = static_cast<float>(launch.attr<double>("weight_scale"));
    steps.x = view_of(launch.in(0));
    steps.w = view_of(launch.in(1));
    steps.bias = view_of(launch.in(2));
    steps.initial = view_of(launch.in(3));
    steps.gates = floats(batch * time * 2 * h);
    steps.weights = floats((is_gradient ? 4 : 2) * h * h);
    if (is_gradient) {
      steps.operands = floats(batch * time * (n_in + h));
      steps.dbias = floats(batch * 2 * h);
      steps.dstate = floats(batch * h);
    }
    int64_t needed = gemm_workspace(gate_product(launch));
    if (is_gradient) {
      needed = std::max(
          {needed, gemm_workspace(input_product(launch)), gemm_workspace(weight_product(launch))});
    }
    std::byte* at = take(needed);
    if (begin != nullptr) room = {at, static_cast<size_t>(needed)};
  }

  int64_t rows() const { return int64_t{steps.batch} * steps.time; }
  int64_t columns() const { return 2 * int64_t{steps.h}; }
  View gates() const { return fp32_view(steps.gates, rows() * columns()); }
  View operands() const {
    return fp32_view(steps.operands, rows() * (int64_t{steps.n_in} + steps.h));
  }

  // x · w_x: what x gives to the gates.
  Gemm gate_product(const Launch& launch) const {
    Gemm product = Gemm::packed(rows(), columns(), steps.n_in);
    product.alpha = steps.weight_scale;
    product.a = view_of(launch.in(0));
    product.b = steps.w;
    product.c = gates();
    return product;
  }
  // dgates · w_xᵀ
  Gemm input_product(const Launch& launch) const {
    Gemm product = Gemm::packed(rows(), steps.n_in, columns(), false, true);
    product.alpha = steps.weight_scale * factor_of(launch, 0);
    product.a = gates();
    product.b = steps.w;
    product.c = view_of(launch.out(0));
    return product;
  }
  // operandsᵀ · dgates
  Gemm weight_product(const Launch& launch) const {
    Gemm product = Gemm::packed(int64_t{steps.n_in} + steps.h, columns(), rows(), true);
    product.alpha = steps.weight_scale * factor_of(launch, 1);
    product.a = operands();
    product.b = gates();
    product.c = view_of(launch.out(1));
    return product;
  }

 private:
  // None is set where room is asked for.
  static float factor_of(const Launch& launch, size_t output) {
    return launch.factors.empty() ? 1 : launch.factor(output);
  }
  std::byte* take(int64_t size) {
    constexpr int64_t kAlignment = 64;
    std::byte* at = begin == nullptr ? nullptr : begin + bytes;
    bytes += ceil_div(size, kAlignment) * kAlignment;
    return at;
  }
  float* floats(int64_t count) {
    return reinterpret_cast<float*>(take(count * static_cast<int64_t>(sizeof(float))));
  }
};

int64_t workspace(const Launch& launch) { return Plan(launch).bytes; }

__global__ void copy_inputs(RecurrentSteps s) {
  int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < s.x.count; i += step) {
    s.operands[i / s.n_in * (s.n_in + s.h) + i % s.n_in] = load(s.x, i);
  }
}

void go_forward(const Launch& launch, const Plan& plan) {
  gemm(plan.gate_product(launch), stream(), plan.room);
  suits_tensor_cores(plan.steps) ? tensor_advance(plan.steps) : plain_advance(plan.steps);
}

void run_recurrent(const Launch& launch) {
  Plan plan(launch);
  plan.steps.y = view_of(launch.out());
  plan.steps.factor = launch.factor();
  go_forward(launch, plan);
}

RecurrentResults results_of(const Launch& launch) {
  return {view_of(launch.out(0)),
          view_of(launch.out(1)),
          view_of(launch.out(2)),
          view_of(launch.out(3)),
          {launch.factor(0), launch.factor(1), launch.factor(2), launch.factor(3)}};
}

void plain_products(const Launch& launch, const Plan& plan, const RecurrentResults& to) {
  const RecurrentSteps& s = plan.steps;
  copy_inputs<<<blocks_for(s.x.count), kThreads, 0, stream()>>>(s);
  check(cudaGetLastError(), "recurrent inputs");
  gemm(plan.input_product(launch), stream(), plan.room);
  gemm(plan.weight_product(launch), stream(), plan.room);
  store_sums(s.dbias, s.batch, plan.columns(), to.dbias, to.factors[2]);
  store_sums(s.dstate, s.batch, s.h, to.dinitial, to.factors[3]);
}

void run_recurrent_grad(const Launch& launch) {
  Plan plan(launch);
  RecurrentSteps& s = plan.steps;
  RecurrentResults to = results_of(launch);
  s.dy = view_of(launch.in(4));
  go_forward(launch, plan);
  suits_tensor_cores(s) ? tensor_retreat(s) : plain_retreat(s);
  suits_tensor_products(s) ? tensor_products(s, to) : plain_products(launch, plan, to);
}

constexpr Kernel kKernels[] = {
    {&recurrent_highway_op, run_recurrent, workspace},
    {&recurrent_highway_grad_op, run_recurrent_grad, workspace},
};

}  // namespace

std::span<const Kernel> recurrent_kernels() { return kKernels; }

}  // namespace sigma1::cuda
