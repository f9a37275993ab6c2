// Optimiser steps. Learning rate and step count are read on the device; LAMB, which needs lengths
// before it can go a step, keeps its directions and partial sums of squares in the workspace.
#include "sigma1/ops/update.h"

#include "sigma1/backend/cuda/fold.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/update.cuh"

namespace sigma1::cuda {
namespace {

struct Sgd {
  Input param, grad, momentum;
  Rate rate;
  Next next_param, next_momentum;
  float kept, decay, gradient_scale;
  bool nesterov;

  explicit Sgd(const Launch& launch)
      : param(input_of(launch.in(0))),
        grad(input_of(launch.in(1))),
        momentum(input_of(launch.in(2))),
        rate(launch, 3),
        next_param(launch, 0),
        next_momentum(launch, 1),
        kept(attribute(launch, "momentum")),
        decay(attribute(launch, "weight_decay")),
        gradient_scale(attribute(launch, "gradient_scale")),
        nesterov(launch.attr<bool>("nesterov")) {}
};

__global__ void step_sgd(const __grid_constant__ Sgd sgd) {
  int64_t size = sgd.param.view.count;
  double lr = sgd.rate();
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
    Four p = read(sgd.param, first, size), grad = read(sgd.grad, first, size);
    Four velocity = read(sgd.momentum, first, size), direction;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float g = fmaf(sgd.gradient_scale, grad.at[k], sgd.decay * p.at[k]);
      velocity.at[k] = fmaf(sgd.kept, velocity.at[k], g);
      direction.at[k] = sgd.nesterov ? fmaf(sgd.kept, velocity.at[k], g) : velocity.at[k];
    }
    sgd.next_param.write_param(first, p, direction, lr);
    sgd.next_momentum.write_state(first, velocity);
  }
}

void run_sgd(const Launch& launch) {
  int blocks = blocks_for_fours(launch.in(0).count());
  step_sgd<<<blocks, kThreads, 0, stream()>>>(Sgd(launch));
  check(cudaGetLastError(), "sgd_step");
}

__global__ void step_adam(const __grid_constant__ Adam adam) {
  int64_t size = adam.param.view.count;
  double lr = adam.rate();
  Corrections inverse = find_corrections(adam);
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
    step_four(adam, inverse, lr, first);
  }
}

void run_adam(const Launch& launch) {
  int blocks = blocks_for_fours(launch.in(0).count());
  step_adam<<<blocks, kThreads, 0, stream()>>>(Adam(launch));
  check(cudaGetLastError(), "adam_step");
}

// What LAMB keeps until the lengths are known: every block's sums of squares, the rate that follows
// from them, and all directions.
struct LambWorkspace {
  int64_t count;
  int blocks;
  double *param_squares, *direction_squares, *rate;
  float* directions;

  explicit LambWorkspace(const Launch& launch)
      : count(launch.in(0).count()), blocks(blocks_for_fours(count)) {
    param_squares = reinterpret_cast<double*>(launch.workspace.data());
    direction_squares = param_squares + blocks;
    rate = direction_squares + blocks;
    directions = reinterpret_cast<float*>(param_squares + doubles());
  }

  // A multiple of 16 bytes, for what follows.
  int64_t doubles() const { return 2 * (int64_t{blocks} + 1); }
  int64_t bytes() const {
    return doubles() * static_cast<int64_t>(sizeof(double)) +
           count * static_cast<int64_t>(sizeof(float));
  }
};

__device__ double add_squares(double sum, const Four& values) {
  for (float each : values.at) sum += static_cast<double>(each) * static_cast<double>(each);
  return sum;
}

__global__ void find_directions(const __grid_constant__ Adam adam,
                                const __grid_constant__ LambWorkspace kept,
                                const __grid_constant__ Output directions) {
  Corrections inverse = find_corrections(adam);
  double of_param = 0, of_direction = 0;
  for (int64_t first = first_of_thread(); first < kept.count; first += stride_of_grid()) {
    AdamFour now = read_four(adam, first);
    Four direction = go_on(adam, inverse, first, now);
    write(directions, first, direction);
    of_param = add_squares(of_param, now.param);
    // What lies behind the end is zero, and so is its direction.
    of_direction = add_squares(of_direction, direction);
  }
  of_param = block_fold(of_param, Plus());
  of_direction = block_fold(of_direction, Plus());
  if (threadIdx.x > 0) return;
  kept.param_squares[blockIdx.x] = of_param;
  kept.direction_squares[blockIdx.x] = of_direction;
}

__device__ double root_of_sum(const double* terms, int count) {
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += blockDim.x) sum += terms[i];
  return ::sqrt(block_fold(sum, Plus()));
}

// By one block. `limit` 0: none.
__global__ void find_rate(LambWorkspace kept, Rate rate, double limit) {
  double of_param = root_of_sum(kept.param_squares, kept.blocks);
  double of_direction = root_of_sum(kept.direction_squares, kept.blocks);
  double ratio = of_param > 0 && of_direction > 0 ? of_param / of_direction : 1;
  if (limit > 0) ratio = fmin(ratio, limit);
  if (threadIdx.x == 0) *kept.rate = rate() * ratio;
}

__global__ void step_lamb(const __grid_constant__ Input param,
                          const __grid_constant__ Input directions,
                          const __grid_constant__ Next next_param, const double* rate) {
  int64_t size = param.view.count;
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
    Four p = read(param, first, size), direction = read(directions, first, size);
    next_param.write_param(first, p, direction, *rate);
  }
}

void run_lamb(const Launch& launch) {
  LambWorkspace kept(launch);
  Adam adam(launch);
  find_directions<<<kept.blocks, kThreads, 0, stream()>>>(adam, kept,
                                                          output_of(kept.directions, kept.count));
  check(cudaGetLastError(), "lamb_step: directions");
  find_rate<<<1, kThreads, 0, stream()>>>(kept, adam.rate, launch.attr<double>("max_trust_ratio"));
  check(cudaGetLastError(), "lamb_step: rate");
  step_lamb<<<kept.blocks, kThreads, 0, stream()>>>(
      adam.param, input_of(kept.directions, kept.count), adam.next_param, kept.rate);
  check(cudaGetLastError(), "lamb_step");
}

int64_t lamb_workspace(const Launch& launch) { return LambWorkspace(launch).bytes(); }

bool sgd_in_place(size_t input, size_t output) { return input == (output == 0 ? 0 : 2); }
bool adam_in_place(size_t input, size_t output) { return input == (output == 0 ? 0 : output + 1); }

constexpr Kernel kKernels[] = {
    {&sgd_step_op, run_sgd, nullptr, sgd_in_place},
    {&adam_step_op, run_adam, nullptr, adam_in_place},
    {&lamb_step_op, run_lamb, lamb_workspace, adam_in_place},
};

}  // namespace

std::span<const Kernel> update_kernels() { return kKernels; }

}  // namespace sigma1::cuda
