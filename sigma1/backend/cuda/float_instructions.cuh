// Instructions on fp32 that the language has no name for, as functions. Includes nothing: also
// for kernels that are compiled at run time. Private to this folder.
#pragma once

namespace sigma1::cuda {

// A NaN stays one.
__device__ inline float at_most(float x, float bound) {
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(bound));
  return x;
}
__device__ inline float at_least(float x, float bound) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(bound));
  return x;
}

// 2^x and 1/x, to about two units of the last place; subnormal numbers are zeros.
__device__ inline float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}
__device__ inline float fast_inverse(float x) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

}  // namespace sigma1::cuda
