// The activations of ops/pointwise_math.h in fp32, written so that no difference cancels and
// nothing overflows on the way: as in cpu/math_kernels.h, with the device's own functions.
#pragma once

namespace sigma1::cuda {

// 1/(1 + e^−x) and the same of −x.
struct Logistic {
  float of_x, of_minus_x;
};

__device__ inline Logistic logistic(float x) {
  float e = expf(-fabsf(x)), larger = 1 / (1 + e), smaller = e * larger;
  return x < 0 ? Logistic{smaller, larger} : Logistic{larger, smaller};
}

// Beyond it on either side x is as good as infinite; a NaN stays one.
__device__ inline float within(float x, float bound) {
  return x > bound ? bound : x < -bound ? -bound : x;
}

struct Relu {
  __device__ static float value(float x) { return x > 0 ? x : 0; }
  __device__ static float derivative(float x) { return x > 0 ? 1 : 0; }
};
struct Gelu {
  __device__ static float value(float x) { return x * normcdff(x); }
  __device__ static float derivative(float x) {
    float near = within(x, 14.5f);
    // The square in two parts, the first of them exact: e^−x²/2 would multiply its rounding by x².
    float high = __uint_as_float(__float_as_uint(near) & 0xFFFFF000);
    float low = (near - high) * (near + high);
    float bell = expf(high * high * -0.5f) * expf(low * -0.5f);
    return fmaf(near * 0.398942280f, bell, normcdff(near));
  }
};
struct GeluTanh {
  static constexpr float kRoot = 0.797884561f, kCube = 0.044715f;
  __device__ static Logistic half_of_one_plus_tanh(float x) {
    return logistic(2 * kRoot * x * fmaf(x * x, kCube, 1));
  }
  __device__ static float value(float x) { return x * half_of_one_plus_tanh(x).of_x; }
  __device__ static float derivative(float x) {
    float near = within(x, 16);  // cubes may overflow
    Logistic s = half_of_one_plus_tanh(near);
    float slope = kRoot * fmaf(near * near, 3 * kCube, 1);
    return fmaf(2 * near * slope, s.of_x * s.of_minus_x, s.of_x);
  }
};
struct Tanh {
  __device__ static float value(float x) { return tanhf(x); }
  __device__ static float derivative(float x) {  // 1 − tanh² = 4σ(2x)σ(−2x)
    Logistic s = logistic(x * 2);
    return 4 * s.of_x * s.of_minus_x;
  }
};
struct Sigmoid {
  __device__ static float value(float x) { return logistic(x).of_x; }
  __device__ static float derivative(float x) {
    Logistic s = logistic(x);
    return s.of_x * s.of_minus_x;
  }
};
struct Silu {
  __device__ static float value(float x) { return x * logistic(x).of_x; }
  __device__ static float derivative(float x) {
    Logistic s = logistic(x);
    return s.of_x * fmaf(x, s.of_minus_x, 1);
  }
};
struct Softplus {
  __device__ static float value(float x) { return (x < 0 ? 0 : x) + log1pf(expf(-fabsf(x))); }
  __device__ static float derivative(float x) { return logistic(x).of_x; }
};
struct Exp {
  __device__ static float value(float x) { return expf(x); }
  __device__ static float derivative(float x) { return expf(x); }
};
struct Log {
  __device__ static float value(float x) { return logf(x); }
  __device__ static float derivative(float x) { return 1 / x; }
};

}  // namespace sigma1::cuda
