// The inner loops of the CPU kernels: plain fp32 arrays, one thread. An element's result does not
// depend on where it lies in the array, so work may be cut anywhere; a sum's does. Compiled once
// per instruction set from one source, so nothing here may pull in library code (see
// numerics/convert_kernels.h).
#pragma once

#include <cstdint>

#include "sigma1/base/philox.h"

namespace sigma1::cpu {

enum class Activation { relu, gelu, gelu_tanh, tanh, sigmoid, silu, softplus, exp, log };
inline constexpr int kActivations = 9;

struct NormRow {
  float mean, inverse_scale;
};

struct AdamConstants {
  float beta1, beta2, epsilon, weight_decay, gradient_scale;
  float complement1, complement2;                  // 1 − β, before β was rounded
  float inverse_correction1, inverse_correction2;  // 1/(1 − βᵗ)
  bool decoupled;
};

struct DropoutConstants {
  PhiloxKey key;  // of the RandomStream, with its step
  uint64_t step, first_index;
  uint32_t last_dropped;
  float factor;
};

struct VectorKernels {
  // y = factor·f(x); dx = factor·f'(x)·dy. In place where x or dy is the output.
  void (*activation)(Activation f, const float* x, float* y, int64_t n, float factor);
  void (*activation_grad)(Activation f, const float* x, const float* dy, float* dx, int64_t n,
                          float factor);
  void (*scale)(const float* x, float* y, int64_t n, float factor);       // y = factor·x
  void (*add_scaled)(const float* x, float* y, int64_t n, float factor);  // y += factor·x
  void (*combine)(const float* x, const float* y, float* z, int64_t n, float a,
                  float b);  // a·x + b·y
  void (*multiply)(const float* x, const float* y, float* z, int64_t n, float factor);
  void (*multiply_add)(const float* x, const float* y, float* z, int64_t n);  // z += x·y
  void (*scale_add)(const float* x, const float* y, float* z, int64_t n,
                    float factor);  // factor·(x + y)
  float (*sum)(const float* x, int64_t n);
  float (*dot)(const float* x, const float* y, int64_t n);
  float (*largest)(const float* x, int64_t n);  // −∞ when n is 0; NaN is not seen
  float (*largest_magnitude)(const float* x,
                             int64_t n);  // 0 when n is 0; infinity when there is a NaN
  // y = exp(multiplier·x − shift), and the sum of y.
  float (*exp_sum)(const float* x, float* y, int64_t n, float multiplier, float shift);
  // z = factor·x·(y − shift): softmax's gradient.
  void (*multiply_shifted)(const float* x, const float* y, float* z, int64_t n, float shift,
                           float factor);
  // The row's statistics: mean (or 0 when not centred) and (mean square about it + eps)^-½.
  NormRow (*norm_row)(const float* x, int64_t n, float eps, bool centred);
  // y = factor·(x̂·w + c), where w and c may be null.
  void (*normalise)(const float* x, const float* w, const float* c, float* y, int64_t n,
                    NormRow row, float factor);
  // dx of a normalised row. w may be null.
  void (*norm_grad)(const float* x, const float* w, const float* dy, float* dx, int64_t n,
                    NormRow row, bool centred, float factor);
  // dw += dy·x̂, and dc += dy where not null.
  void (*norm_weight_grad)(const float* x, const float* dy, float* dw, float* dc, int64_t n,
                           NormRow row);
  // m and v in place; gives the direction to go against, decoupled decay included.
  void (*adam_direction)(const float* param, const float* grad, float* m, float* v,
                         float* direction, int64_t n, const AdamConstants& constants);
  // y = factor·x where the element's random word is above last_dropped, else 0.
  void (*dropout)(const float* x, float* y, int64_t n, const DropoutConstants& constants);
  bool (*all_finite)(const float* x, int64_t n);
  // fp32 to bfloat16 by cutting bits off: exact for what fp8 holds.
  void (*truncate_to_bf16)(const float* x, uint16_t* y, int64_t n);
  // y = table[code], of 256 numbers.
  void (*look_up)(const uint8_t* codes, const uint16_t* table, uint16_t* y, int64_t n);
};

extern const VectorKernels vector_kernels_baseline, vector_kernels_avx2, vector_kernels_avx512;

}  // namespace sigma1::cpu
