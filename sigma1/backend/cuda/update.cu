// Optimiser steps. Learning rate and step count are read on the device; LAMB, which needs lengths
// before it can go a step, keeps sums of squares in the workspace.
#include "sigma1/ops/update.h"

#include <algorithm>

#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/lamb.cuh"

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

__global__ void step_adam(const __grid_constant__ Adam adam, const double* found_rate) {
  int64_t size = adam.param.view.count;
  double rate = rate_of(adam, found_rate);
  Corrections inverse = find_corrections(adam);
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
    step_four(adam, inverse, rate, first);
  }
}

void run_adam(const Adam& adam, const double* found_rate, const char* name) {
  int blocks = blocks_for_fours(adam.param.view.count);
  step_adam<<<blocks, kThreads, 0, stream()>>>(adam, found_rate);
  check(cudaGetLastError(), name);
}

void run_adam(const Launch& launch) { run_adam(Adam(launch), nullptr, "adam_step"); }

__global__ void find_squares(const __grid_constant__ Adam adam, Squares* of_chunks) {
  Squares sum =
      squares_of(adam, find_corrections(adam), StepChunk(blockIdx.x, adam.param.view.count))
          .of_block();
  if (threadIdx.x == 0) of_chunks[blockIdx.x] = sum;
}

// By one block.
__global__ void find_rate(const Squares* of_chunks, int64_t chunks, Rate rate, double limit,
                          double* found_rate) {
  double found = lamb_rate(of_chunks, chunks, rate, limit);
  if (threadIdx.x == 0) *found_rate = found;
}

struct LambWorkspace {
  int64_t chunks;
  Squares* of_chunks;
  double* rate;

  explicit LambWorkspace(const Launch& launch)
      : chunks(std::max<int64_t>(1, StepChunk::count_for(launch.in(0).count()))),
        of_chunks(reinterpret_cast<Squares*>(launch.workspace.data())),
        rate(reinterpret_cast<double*>(of_chunks + chunks)) {}

  int64_t bytes() const { return chunks * int64_t{sizeof(Squares)} + int64_t{sizeof(double)}; }
};

void run_lamb(const Launch& launch) {
  LambWorkspace kept(launch);
  Adam adam(launch);
  find_squares<<<static_cast<unsigned>(kept.chunks), kThreads, 0, stream()>>>(adam, kept.of_chunks);
  check(cudaGetLastError(), "lamb_step: squares");
  find_rate<<<1, kThreads, 0, stream()>>>(kept.of_chunks, kept.chunks, adam.rate,
                                          launch.attr<double>("max_trust_ratio"), kept.rate);
  check(cudaGetLastError(), "lamb_step: rate");
  run_adam(adam, kept.rate, "lamb_step");
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
