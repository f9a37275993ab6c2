// How the loops of vector_kernels.cpp run through arrays: an element meets the same arithmetic
// wherever it lies, and sums are taken in one order on every machine.
#pragma once

#include <immintrin.h>

#include "sigma1/numerics/lanes_kernels.h"

namespace sigma1::cpu {
namespace {

using detail::Floats;
using detail::kLanes;
using detail::load;
using detail::store;

constexpr auto kStride = static_cast<int64_t>(kLanes);

// The first `count` lanes; the others are 0.
#ifdef __AVX512F__
inline __mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1u << count) - 1); }

inline Floats load_part(const float* from, int64_t count) {
  return reinterpret_cast<Floats>(_mm512_maskz_loadu_ps(first_lanes(count), from));
}

inline void store_part(float* to, Floats vector, int64_t count) {
  _mm512_mask_storeu_ps(to, first_lanes(count), reinterpret_cast<__m512>(vector));
}

// 256 numbers in eight registers.
class WideTable {
 public:
  explicit WideTable(const uint16_t* table) {
    for (int i = 0; i < 8; ++i) parts_[i] = _mm512_loadu_si512(table + 32 * i);
  }
  __m512i look_up(__m512i places) const {
    __mmask32 bit_6 = _mm512_test_epi16_mask(places, _mm512_set1_epi16(64));
    __mmask32 bit_7 = _mm512_test_epi16_mask(places, _mm512_set1_epi16(128));
    __m512i below = _mm512_mask_blend_epi16(bit_6, of_quarter(0, places), of_quarter(1, places));
    __m512i above = _mm512_mask_blend_epi16(bit_6, of_quarter(2, places), of_quarter(3, places));
    return _mm512_mask_blend_epi16(bit_7, below, above);
  }

 private:
  // By the lowest six bits.
  __m512i of_quarter(int quarter, __m512i places) const {
    return _mm512_permutex2var_epi16(parts_[2 * quarter], places, parts_[2 * quarter + 1]);
  }
  __m512i parts_[8];
};
#else
inline Floats load_part(const float* from, int64_t count) {
  float padded[kLanes] = {};
  __builtin_memcpy(padded, from, static_cast<size_t>(count) * sizeof(float));
  return load(padded);
}

inline void store_part(float* to, Floats vector, int64_t count) {
  float padded[kLanes];
  store<float>(padded, vector);
  __builtin_memcpy(to, padded, static_cast<size_t>(count) * sizeof(float));
}
#endif

// Calls body(load, store) for each vector of [0, n): the same arithmetic for the whole ones and
// for the part at the end.
template <class Body>
void for_vectors(int64_t n, Body body) {
  int64_t i = 0;
  for (; i + kStride <= n; i += kStride) {
    body([i](const float* x) { return load(x + i); },
         [i](float* y, Floats value) { store<float>(y + i, value); });
  }
  if (int64_t left = n - i; left > 0) {
    body([i, left](const float* x) { return load_part(x + i, left); },
         [i, left](float* y, Floats value) { store_part(y + i, value, left); });
  }
}

constexpr int64_t kSums = 32;  // partial sums, on every machine

struct Sums {
  Floats part[kSums / kStride] = {};

  float total() const {
    float lanes[kSums];
    for (int64_t i = 0; i < kSums / kStride; ++i) store<float>(lanes + i * kStride, part[i]);
    for (int64_t width = kSums / 2; width > 0; width /= 2) {
      for (int64_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    }
    return lanes[0];
  }
};

// body(load, store) gives the terms; what lies beyond n is left out whatever it is.
template <class Body>
float sum_vectors(int64_t n, Body body) {
  Sums sums;
  int64_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (int64_t k = 0; k < kSums / kStride; ++k) {
      int64_t at = i + k * kStride;
      sums.part[k] += body([at](const float* x) { return load(x + at); },
                           [at](float* y, Floats value) { store<float>(y + at, value); });
    }
  }
  for (int64_t k = 0; i < n; i += kStride, ++k) {
    int64_t left = n - i < kStride ? n - i : kStride;
    float terms[kLanes] = {};
    Floats values = body([i, left](const float* x) { return load_part(x + i, left); },
                         [i, left](float* y, Floats value) { store_part(y + i, value, left); });
    store_part(terms, values, left);
    sums.part[k] += load(terms);
  }
  return sums.total();
}

}  // namespace
}  // namespace sigma1::cpu
