// What optimiser steps are made of: alone in update.cu, and many at a time in bundle_adam.cu and
// bundle_lamb.cu. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/four.cuh"

namespace sigma1::cuda {

inline float attribute(const Launch& launch, std::string_view name) {
  return static_cast<float>(launch.attr<double>(name));
}

// By which a parameter learns: the rate of all, on the device, and what it is multiplied by.
struct Rate {
  View lr;
  double scale;

  Rate(const Launch& launch, size_t input)
      : lr(view_of(launch.in(input))), scale(launch.attr<double>("rate_scale")) {}

  __device__ double operator()() const { return scale * static_cast<double>(load(lr, 0)); }
};

// An output and what it is multiplied by.
struct Next {
  Output out;
  float factor;

  Next(const Launch& launch, size_t o) : out(output_of(launch, o)), factor(launch.factor(o)) {}

  __device__ void write_state(int64_t first, Four state) const {
    for (float& each : state.at) each *= factor;
    write(out, first, state);
  }
  // param − rate·direction.
  __device__ void write_param(int64_t first, const Four& param, const Four& direction,
                              double rate) const {
    write(out, first, moved(param, direction, step_of(rate)));
  }
  __device__ float step_of(double rate) const {
    return static_cast<float>(-rate * static_cast<double>(factor));
  }
  __device__ Four moved(Four param, const Four& direction, float step) const {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      param.at[k] = fmaf(factor, param.at[k], step * direction.at[k]);
    }
    return param;
  }
};

// What Adam's arithmetic takes.
struct AdamRule {
  float beta1, beta2, complement1, complement2;  // complements are 1 − beta
  float epsilon, coupled_decay, decoupled_decay, gradient_scale;
};

struct Adam {
  Input param, grad, m, v;
  Rate rate;
  View step;
  Next next_param, next_m, next_v;
  double beta1, beta2;
  AdamRule rule;

  explicit Adam(const Launch& launch)
      : param(input_of(launch.in(0))),
        grad(input_of(launch.in(1))),
        m(input_of(launch.in(2))),
        v(input_of(launch.in(3))),
        rate(launch, 4),
        step(view_of(launch.in(5))),
        next_param(launch, 0),
        next_m(launch, 1),
        next_v(launch, 2),
        beta1(launch.attr<double>("beta1")),
        beta2(launch.attr<double>("beta2")) {
    bool decoupled = launch.attr<bool>("decoupled");
    float decay = attribute(launch, "weight_decay");
    rule = {.beta1 = static_cast<float>(beta1),
            .beta2 = static_cast<float>(beta2),
            .complement1 = static_cast<float>(1 - beta1),
            .complement2 = static_cast<float>(1 - beta2),
            .epsilon = attribute(launch, "epsilon"),
            .coupled_decay = decoupled ? 0 : decay,
            .decoupled_decay = decoupled ? decay : 0,
            .gradient_scale = attribute(launch, "gradient_scale")};
  }
};

// 1 / (1 − betaᵗ) of both means.
struct Corrections {
  float of_m, of_v;
};

// By two threads of each block, as powers in double take long.
__device__ inline Corrections find_corrections(const Adam& adam) {
  __shared__ Corrections shared;
  auto correction = [&](double beta) {
    double power = ::pow(beta, static_cast<double>(load(adam.step, 0)));
    return static_cast<float>(1 / (1 - power));
  };
  if (threadIdx.x == 0) shared.of_m = correction(adam.beta1);
  if (threadIdx.x == 32) shared.of_v = correction(adam.beta2);
  __syncthreads();
  return shared;
}

// Four codes as they lie in memory.
__device__ inline uint4 load_codes(const View& from, int64_t first) {
  uint4 codes{};
  if (from.type == Type::fp32) {
    codes = static_cast<const uint4*>(from.data)[first / 4];
  } else if (from.type == Type::fp16 || from.type == Type::bf16) {
    uint2 half = static_cast<const uint2*>(from.data)[first / 4];
    codes.x = half.x;
    codes.y = half.y;
  } else {
    codes.x = static_cast<const uint32_t*>(from.data)[first / 4];
  }
  return codes;
}

__device__ inline Four numbers_of(const View& from, uint4 codes) {
  return load_four({&codes, from.type, false, from.scale, 4}, 0);
}

// What a step reads of four elements.
struct AdamFour {
  Four param, grad, m, v;
};

__device__ inline AdamFour read_four(const Adam& adam, int64_t first) {
  int64_t size = adam.param.view.count;
  bool packs = adam.param.packs && adam.grad.packs && adam.m.packs && adam.v.packs;
  if (!packs || first + 4 > size) {
    return {read(adam.param, first, size), read(adam.grad, first, size), read(adam.m, first, size),
            read(adam.v, first, size)};
  }
  // All are under way before the first is made a number of.
  uint4 param = load_codes(adam.param.view, first), grad = load_codes(adam.grad.view, first);
  uint4 m = load_codes(adam.m.view, first), v = load_codes(adam.v.view, first);
  return {numbers_of(adam.param.view, param), numbers_of(adam.grad.view, grad),
          numbers_of(adam.m.view, m), numbers_of(adam.v.view, v)};
}

// The new means, and the direction to go against, decoupled decay included.
struct AdamResult {
  Four m, v, direction;
};

__device__ inline AdamResult advanced(const AdamRule& rule, const Corrections& inverse,
                                      const AdamFour& now) {
  AdamResult next;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float p = now.param.at[k];
    float g = fmaf(rule.coupled_decay, p, rule.gradient_scale * now.grad.at[k]);
    float m = fmaf(rule.beta1, now.m.at[k], rule.complement1 * g);
    float v = fmaf(rule.beta2, now.v.at[k], rule.complement2 * g * g);
    float length = sqrtf(v * inverse.of_v) + rule.epsilon;
    float toward = length == 0 ? 0 : m * inverse.of_m / length;
    next.m.at[k] = m;
    next.v.at[k] = v;
    next.direction.at[k] = fmaf(rule.decoupled_decay, p, toward);
  }
  return next;
}

// The rate of a whole step: `found` by LAMB, else (null) the one that all parameters have.
__device__ inline double rate_of(const Adam& adam, const double* found) {
  return found == nullptr ? adam.rate() : *found;
}

// The four from `first` on of one whole step.
__device__ inline void step_four(const Adam& adam, const Corrections& inverse, double rate,
                                 int64_t first) {
  AdamFour now = read_four(adam, first);
  AdamResult next = advanced(adam.rule, inverse, now);
  adam.next_m.write_state(first, next.m);
  adam.next_v.write_state(first, next.v);
  adam.next_param.write_param(first, now.param, next.direction, rate);
}

// What a block takes of a tensor that is cut into chunks.
struct StepChunk {
  static constexpr int kFours = 4;  // of a thread
  static constexpr int64_t kSize = 4 * kFours * kThreads;
  int64_t begin, end;

  __device__ StepChunk(int64_t chunk, int64_t size)
      : begin(chunk * kSize), end(min(begin + kSize, size)) {}

  // The i-th four of this thread; may lie behind the end.
  __device__ int64_t four(int i) const {
    return begin + 4 * (static_cast<int>(threadIdx.x) + i * kThreads);
  }
  static int64_t count_for(int64_t size) { return (size + kSize - 1) / kSize; }
};

}  // namespace sigma1::cuda
