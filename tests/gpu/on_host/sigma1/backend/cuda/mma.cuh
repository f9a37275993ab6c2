// What sigma1/backend/cuda/mma.cuh has, on a CPU.
#pragma once

#include "host_gpu.h"

namespace sigma1::cuda {

template <class Element>
float number_of(uint16_t bits) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>)
    return __uint_as_float(uint32_t{bits} << 16);
  _Float16 half;
  std::memcpy(&half, &bits, sizeof(half));
  return static_cast<float>(half);
}
template <class Element>
uint16_t bits_of(float number) {
  if constexpr (std::is_same_v<Element, __nv_bfloat16>) {
    uint32_t bits = __float_as_uint(number);
    if (std::isnan(number)) return 0x7FFF;
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
  }
  auto half = static_cast<_Float16>(number);
  uint16_t bits;
  std::memcpy(&bits, &half, sizeof(bits));
  return bits;
}
template <class Element>
float number_of(uint32_t pair, int which) {
  return number_of<Element>(static_cast<uint16_t>(pair >> 16 * which));
}

template <class Element>
uint32_t packed(float first, float second) {
  return bits_of<Element>(first) | uint32_t{bits_of<Element>(second)} << 16;
}
template <class Element>
uint32_t packed_within(float first, float second) {
  const float most = std::is_same_v<Element, __half> ? 65504.0f : 0x1.fep127f;
  auto within = [=](float x) { return std::isnan(x) ? x : std::fmin(std::fmax(x, -most), most); };
  return packed<Element>(within(first), within(second));
}

template <class Element>
void mma_16x8x16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  struct Factors {
    float a[4][2], b[2][2];
  };
  Factors own;
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 4; ++k) own.a[k][i] = number_of<Element>(a[k], i);
    for (int k = 0; k < 2; ++k) own.b[k][i] = number_of<Element>(b[k], i);
  }
  int g = host_gpu::lane() / 4, t = host_gpu::lane() % 4;
  host_gpu::meet_lanes(own, [&](auto of) {
    for (int i = 0; i < 4; ++i) {
      int column = 2 * t + i % 2;
      float sum = 0;
      for (int k = 0; k < 16; ++k) {
        const Factors &left = of(g * 4 + k % 8 / 2), &right = of(column * 4 + k % 8 / 2);
        sum += left.a[i / 2 + k / 8 * 2][k % 2] * right.b[k / 8][k % 2];
      }
      d[i] += sum;
    }
    return 0;
  });
}

inline uint32_t shared_address(const void* place) {
  auto offset = static_cast<const std::byte*>(place) - host_gpu::block().memory.data();
  return host_gpu::own(static_cast<uint32_t>(offset));
}

// So many 8×8 matrices, of which lanes name rows.
template <int kMatrices>
void load_matrices(uint32_t (&to)[kMatrices], uint32_t row, bool transposed) {
  int g = host_gpu::lane() / 4, t = host_gpu::lane() % 4;
  host_gpu::meet_lanes(row, [&](auto of) {
    for (int m = 0; m < kMatrices; ++m) {
      auto number = [&](int r, int c) {
        return host_gpu::load<uint16_t>(of(8 * m + r) + 2 * static_cast<uint32_t>(c));
      };
      to[m] = transposed ? number(2 * t, g) | uint32_t{number(2 * t + 1, g)} << 16
                         : number(g, 2 * t) | uint32_t{number(g, 2 * t + 1)} << 16;
    }
    return 0;
  });
}
template <int kMatrices>
void store_matrices(uint32_t row, const uint32_t (&from)[kMatrices]) {
  auto g = host_gpu::lane() / 4;
  auto t = static_cast<uint32_t>(host_gpu::lane() % 4);
  host_gpu::meet_lanes(row, [&](auto of) {
    for (int m = 0; m < kMatrices; ++m) host_gpu::store(of(8 * m + g) + 4 * t, from[m]);
    return 0;
  });
}
inline void load_matrix_x4(uint32_t (&to)[4], uint32_t row) { load_matrices(to, row, false); }
inline void load_matrix_x4_transposed(uint32_t (&to)[4], uint32_t row) {
  load_matrices(to, row, true);
}
inline void store_matrix_x4(uint32_t row, const uint32_t (&from)[4]) { store_matrices(row, from); }

inline void copy_16_async(uint32_t to, const void* from, bool inside = true) {
  host_gpu::forget(to, 16);
  host_gpu::self().copies.push_back({to, from, inside});
}
inline void copy_16_async(void* to, const void* from, bool inside = true) {
  copy_16_async(shared_address(to), from, inside);
}
inline void commit_copies() {
  host_gpu::self().groups.push_back(std::move(host_gpu::self().copies));
}
template <int kLeft>
void wait_copies() {
  host_gpu::bring_groups(kLeft);
}

}  // namespace sigma1::cuda
