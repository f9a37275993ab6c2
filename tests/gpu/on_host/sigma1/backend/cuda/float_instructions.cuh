// What sigma1/backend/cuda/float_instructions.cuh has, on a CPU.
#pragma once

#include <cmath>

namespace sigma1::cuda {

inline float at_most(float x, float bound) { return x > bound ? bound : x; }
inline float at_least(float x, float bound) { return x < bound ? bound : x; }
inline float fast_exp2(float x) { return std::exp2(x); }
inline float fast_inverse(float x) { return 1 / x; }

}  // namespace sigma1::cuda
