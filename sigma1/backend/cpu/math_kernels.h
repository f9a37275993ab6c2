// The functions of vector_kernels.cpp on vectors: polynomials without branches, within 4 units in
// the last place of the true value (5 for the activations made of them) wherever that is a normal
// number. Subnormal results are kept, with the bits they have.
#pragma once

#include <immintrin.h>

#include "sigma1/numerics/lanes_kernels.h"

namespace sigma1::cpu {
namespace {

using detail::as_floats;
using detail::as_words;
using detail::Floats;
using detail::kLanes;
using detail::Mask;
using detail::Words;

constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7F800000;

inline Floats all(float x) { return Floats{} + x; }
inline Floats magnitude(Floats x) { return as_floats(as_words(x) & ~kSign); }
// NaN stays NaN in both.
inline Floats at_most(Floats x, float bound) { return x > bound ? all(bound) : x; }
inline Floats at_least(Floats x, float bound) { return x < bound ? all(bound) : x; }

// a·b + c, rounded once where the machine can.
inline Floats fused(Floats a, Floats b, Floats c) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(_mm512_fmadd_ps(
      reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), reinterpret_cast<__m512>(c)));
#elif defined(__FMA__)
  return reinterpret_cast<Floats>(_mm256_fmadd_ps(
      reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), reinterpret_cast<__m256>(c)));
#else
  return a * b + c;
#endif
}

inline Floats square_root(Floats x) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(_mm512_sqrt_ps(reinterpret_cast<__m512>(x)));
#elif defined(__AVX2__)
  return reinterpret_cast<Floats>(_mm256_sqrt_ps(reinterpret_cast<__m256>(x)));
#else
  return reinterpret_cast<Floats>(_mm_sqrt_ps(reinterpret_cast<__m128>(x)));
#endif
}

// By Horner's scheme, the highest power's coefficient first.
template <size_t n>
Floats polynomial(Floats x, const float (&coefficients)[n]) {
  Floats y = all(coefficients[0]);
  for (size_t i = 1; i < n; ++i) y = fused(y, x, all(coefficients[i]));
  return y;
}

// x·2ⁿ for an integer n in [−160, 130], right also where it overflows or is subnormal.
inline Floats times_power_of_two(Floats x, Floats n) {
#if defined(__AVX512F__)
  return reinterpret_cast<Floats>(
      _mm512_scalef_ps(reinterpret_cast<__m512>(x), reinterpret_cast<__m512>(n)));
#else
  Mask exponent = __builtin_convertvector(n, Mask);
  Mask half = exponent >> 1;
  Floats first = reinterpret_cast<Floats>((half + 127) << 23);
  Floats second = reinterpret_cast<Floats>((exponent - half + 127) << 23);
  return x * first * second;
#endif
}

// e^(a + b) for a b that is small beside 1 or beside a.
inline Floats exponential(Floats a, Floats b) {
  a = at_least(at_most(a, 89), -104);    // beyond them it is infinity or 0 all the same
  constexpr float kRounder = 12582912;   // 1.5·2²³: adding it rounds to an integer
  constexpr float kHigh = 0.693359375f;  // ln 2 in 9 bits, so that a multiple of it is exact
  constexpr float kLow = -2.12194440054690e-4f;  // and the rest of it
  Floats n = fused(a + b, all(1.44269504f), all(kRounder)) - kRounder;
  Floats r = fused(n, all(-kHigh), a) + fused(n, all(-kLow), b);
  // Cephes' expf.
  Floats p = polynomial(r, {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                            1.6666665459e-1f, 5.0000001201e-1f});
  return times_power_of_two(fused(p, r * r, r) + 1, n);
}

inline Floats exponential(Floats x) { return exponential(x, Floats{}); }

// log(1 + f) + n·log 2 for f in [√½ − 1, √2 − 1]: Cephes' logf.
inline Floats log_reduced(Floats f, Floats n) {
  Floats square = f * f;
  Floats p = polynomial(f, {7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f,
                            -1.2420140846e-1f, 1.4249322787e-1f, -1.6668057665e-1f,
                            2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f});
  Floats rest = fused(p, f * square, n * -2.12194440e-4f);
  rest = fused(square, all(-0.5f), rest);
  return fused(n, all(0.693359375f), f + rest);
}

constexpr uint32_t kRootOfHalf = 0x3F3504F3;

inline Floats logarithm(Floats x) {
  constexpr float kSmallestNormal = 0x1p-126f;
  Mask is_small = x < kSmallestNormal;
  Words bits = as_words(is_small ? x * 0x1p23f : x);
  Words above = bits - kRootOfHalf;  // the exponent field counts from √½
  Mask n = reinterpret_cast<Mask>(above) >> 23;
  Floats mantissa = as_floats((above & 0x7FFFFF) + kRootOfHalf);
  Floats y = log_reduced(mantissa - 1, __builtin_convertvector(is_small ? n - 23 : n, Floats));
  y = x < __builtin_inff() ? y : x;  // infinity and NaN
  y = x < 0 ? all(__builtin_nanf("")) : y;
  return x == 0 ? all(-__builtin_inff()) : y;
}

// log(1 + x) for x in [0, 1].
inline Floats log_one_plus(Floats x) {
  constexpr float kRootOfTwo = 1.41421356f;
  Mask is_large = x > kRootOfTwo - 1;
  Floats f = is_large ? x * 0.5f - 0.5f : x;
  return log_reduced(f, is_large ? all(1) : Floats{});
}

// 1/(1 + e^−x) and the same of −x, neither by a difference that would cancel.
struct Logistic {
  Floats of_x, of_minus_x;
};

inline Logistic logistic(Floats x) {
  Floats e = exponential(-magnitude(x));
  Floats larger = 1 / (1 + e), smaller = e * larger;
  return {x < 0 ? smaller : larger, x < 0 ? larger : smaller};
}

inline Floats hyperbolic_tangent(Floats x) {
  Floats size = magnitude(x);
  Floats large = 1 - 2 / (exponential(size * 2) + 1);
  // Cephes' tanhf: the difference above would cancel.
  Floats square = x * x;
  Floats p = polynomial(square, {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                                 1.33314422036e-1f, -3.33332819422e-1f});
  Floats small = fused(p * square, size, size);
  return as_floats(as_words(size < 0.625f ? small : large) | (as_words(x) & kSign));
}

// e^(−x²/2) and Φ(x), for x no larger than kNormalRange on either side.
struct Normal {
  Floats bell, cdf;
};
constexpr float kNormalRange = 14.5f;  // Φ(−14.5) is 0 in fp32

inline Normal normal(Floats x) {
  Floats size = at_most(magnitude(x), kNormalRange);
  // The square in two parts: the first is exact, as half of its factor's bits are 0.
  Floats high = as_floats(as_words(size) & 0xFFFFF000);
  Floats low = (size + high) * (size - high);
  Floats bell = exponential(high * high * -0.5f, low * -0.5f);
  // Φ(−x) e^(x²/2) / u as a polynomial in 2u − 1, u = 2.5/(x + 2.5): interpolated at Chebyshev's
  // points, within 2e-8.
  Floats u = 2.5f / (size + 2.5f);
  Floats p = polynomial(u * 2 - 1,
                        {6.324753263313648e-05f, -1.253099736802099e-04f, -2.734047314993842e-04f,
                         1.0102104337437897e-03f, 6.398752861809761e-04f, -6.554666561173335e-03f,
                         -3.6942149802841194e-03f, 5.279481092008661e-02f, 1.7347679536528154e-01f,
                         2.826626636125769e-01f});
  Floats tail = bell * (u * p);
  return {bell, x > 0 ? 1 - tail : tail};
}

// The activations, as in ops/pointwise_math.h.
struct Relu {
  static Floats value(Floats x) { return x > 0 ? x : Floats{}; }
  static Floats derivative(Floats x) { return x > 0 ? all(1) : Floats{}; }
};
struct Gelu {
  static Floats value(Floats x) { return x * normal(x).cdf; }
  static Floats derivative(Floats x) {
    Normal at = normal(x);
    Floats near = at_least(at_most(x, kNormalRange), -kNormalRange);
    return fused(near * 0.398942280f, at.bell, at.cdf);
  }
};
struct GeluTanh {
  static constexpr float kRoot = 0.797884561f, kCube = 0.044715f;
  static Logistic half_of_one_plus_tanh(Floats x) {
    return logistic(2 * kRoot * x * fused(x * x, all(kCube), all(1)));
  }
  static Floats value(Floats x) { return x * half_of_one_plus_tanh(x).of_x; }
  static Floats derivative(Floats x) {
    Floats near = at_least(at_most(x, 16), -16);  // beyond it is constant, and cubes may overflow
    Logistic s = half_of_one_plus_tanh(near);
    Floats slope = kRoot * fused(near * near, all(3 * kCube), all(1));
    return fused(2 * near * slope, s.of_x * s.of_minus_x, s.of_x);
  }
};
struct Tanh {
  static Floats value(Floats x) { return hyperbolic_tangent(x); }
  static Floats derivative(Floats x) {  // 1 − tanh² = 4σ(2x)σ(−2x)
    Logistic s = logistic(x * 2);
    return 4 * s.of_x * s.of_minus_x;
  }
};
struct Sigmoid {
  static Floats value(Floats x) { return logistic(x).of_x; }
  static Floats derivative(Floats x) {
    Logistic s = logistic(x);
    return s.of_x * s.of_minus_x;
  }
};
struct Silu {
  static Floats value(Floats x) { return x * logistic(x).of_x; }
  static Floats derivative(Floats x) {
    Logistic s = logistic(x);
    return s.of_x * fused(x, s.of_minus_x, all(1));
  }
};
struct Softplus {
  static Floats value(Floats x) {
    Floats above = x < 0 ? Floats{} : x;
    return above + log_one_plus(exponential(-magnitude(x)));
  }
  static Floats derivative(Floats x) { return logistic(x).of_x; }
};
struct Exp {
  static Floats value(Floats x) { return exponential(x); }
  static Floats derivative(Floats x) { return exponential(x); }
};
struct Log {
  static Floats value(Floats x) { return logarithm(x); }
  static Floats derivative(Floats x) { return 1 / x; }
};

}  // namespace
}  // namespace sigma1::cpu
