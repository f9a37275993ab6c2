// What CUDA kernels share: a buffer as device code sees it, reading and writing its numbers as
// fp32, and how a kernel is launched. Private to this folder.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <optional>

#include "sigma1/backend/kernel.h"

namespace sigma1::cuda {

// Throws Bug naming what was done; out of memory is told apart where memory is asked for.
void check(cudaError_t status, const char* what);

// The calling thread's; all its work is in the order of this one stream.
cudaStream_t stream();

enum class Type : int { fp32, bf16, fp16, e4m3, e5m2, index };

// Passed to kernels by value.
struct View {
  void* data;
  Type type;
  bool saturates;      // what is too large becomes the largest finite number, not infinity
  const float* scale;  // found at run time; null: 1
  int64_t count;
};

// Nothing for a format that the GPU has no type for.
std::optional<Type> find_type(const FloatFormat& format);

// Throws Error for a format that the GPU has no type for, and for another rounding than to nearest
// unless the caller rounds by itself.
View view_of(const Buffer& buffer, bool any_rounding = false);

__device__ inline float load(const View& from, int64_t i) {
  float value = 0;
  switch (from.type) {
    case Type::fp32:
      return static_cast<const float*>(from.data)[i];
    case Type::bf16:
      value = __bfloat162float(static_cast<const __nv_bfloat16*>(from.data)[i]);
      break;
    case Type::fp16:
      value = __half2float(static_cast<const __half*>(from.data)[i]);
      break;
    case Type::e4m3:
      value = static_cast<float>(static_cast<const __nv_fp8_e4m3*>(from.data)[i]);
      break;
    case Type::e5m2:
      value = static_cast<float>(static_cast<const __nv_fp8_e5m2*>(from.data)[i]);
      break;
    case Type::index:
      return static_cast<float>(static_cast<const int32_t*>(from.data)[i]);
  }
  return from.scale == nullptr ? value : value * *from.scale;
}

// To nearest even.
__device__ inline void store(const View& to, int64_t i, float value) {
  constexpr float kLargestHalf = 65504, kLargestBfloat = 0x1.fep127f;
  __nv_saturation_t saturation = to.saturates ? __NV_SATFINITE : __NV_NOSAT;
  switch (to.type) {
    case Type::fp32:
      static_cast<float*>(to.data)[i] = value;
      break;
    case Type::bf16:
      if (to.saturates && fabsf(value) > kLargestBfloat) value = copysignf(kLargestBfloat, value);
      static_cast<__nv_bfloat16*>(to.data)[i] = __float2bfloat16_rn(value);
      break;
    case Type::fp16:
      if (to.saturates && fabsf(value) > kLargestHalf) value = copysignf(kLargestHalf, value);
      static_cast<__half*>(to.data)[i] = __float2half_rn(value);
      break;
    case Type::e4m3:
      static_cast<uint8_t*>(to.data)[i] = __nv_cvt_float_to_fp8(value, saturation, __NV_E4M3);
      break;
    case Type::e5m2:
      static_cast<uint8_t*>(to.data)[i] = __nv_cvt_float_to_fp8(value, saturation, __NV_E5M2);
      break;
    case Type::index:
      static_cast<int32_t*>(to.data)[i] = static_cast<int32_t>(value);
      break;
  }
}

// Threads of a block, where a kernel has no reason for another number.
inline constexpr int kThreads = 256;

// Blocks that cover `count` with kThreads each; a kernel strides by the whole grid for what is
// left.
int blocks_for(int64_t count);

}  // namespace sigma1::cuda
