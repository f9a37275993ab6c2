// A step of a recurrence on tensor cores: a matrix of 16-bit weights, in registers for all steps,
// by a vector that is fp32 but for being cut into 16-bit parts. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/float_instructions.cuh"
#include "sigma1/backend/cuda/mma.cuh"
#include "sigma1/backend/cuda/recurrent_steps.cuh"

namespace sigma1::cuda {

inline constexpr int kMost = 128;           // numbers of a state, one for each thread
inline constexpr int kStepThreads = kMost;  // few warps: each reads the vector, all meet each step
inline constexpr int kStepWarps = kStepThreads / 32;
inline constexpr int kAhead = 4;  // steps that are loaded before they are needed; even

// An fp32 number as a sum of 16-bit ones, each a column of the right factor.
template <class Element>
struct Split;

template <>
struct Split<__half> {
  static constexpr int kParts = 2;
  static constexpr float kLow = 0x1p-11f;  // of the second part; keeps it from underflowing

  __device__ static void write(float value, __half* to, int stride) {
    __half high = __float2half_rn(value);
    to[0] = high;
    to[stride] = __float2half_rn(fmaf(__half2float(high), -1 / kLow, value * (1 / kLow)));
  }
  __device__ static float number(uint32_t bits) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
  }
};

template <>
struct Split<__nv_bfloat16> {
  static constexpr int kParts = 3;
  static constexpr float kLow = 1;

  __device__ static void write(float value, __nv_bfloat16* to, int stride) {
    for (int part = 0; part < kParts; ++part) {
      __nv_bfloat16 rounded = __float2bfloat16_rn(value);
      to[part * stride] = rounded;
      value -= __bfloat162float(rounded);
    }
  }
};

// kHalves · kMost numbers in parts, each the columns n of the right factor with n % kColumns equal
// to its own: so all lanes that share a row of the product have its sums. Twice: a step reads one
// while the next is written.
template <class Element, int kHalves>
struct Vectors {
  static constexpr int kColumns = Split<Element>::kParts > 2 ? 4 : 2;  // the fourth is zeros
  static constexpr int kStride = kHalves * kMost + 32;                 // neighbours in other banks
  alignas(16) Element of[2][kColumns][kStride];

  __device__ void clear() {
    auto* words = reinterpret_cast<uint32_t*>(of);
    constexpr int kWords = static_cast<int>(sizeof(of) / sizeof(uint32_t));
    for (int i = static_cast<int>(threadIdx.x); i < kWords; i += kStepThreads) words[i] = 0;
  }
  __device__ void write(int which, int at, float value) {
    Split<Element>::write(value, &of[which][0][at], kStride);
  }
};

// Of lane (g, t), eight numbers of two products' sums: 8t … 8t + 7, in both factors.
struct Lane {
  int g = static_cast<int>(threadIdx.x) % 32 / 4, t = static_cast<int>(threadIdx.x) % 4;
  int warp = static_cast<int>(threadIdx.x) / 32;

  // Of the four numbers of the state that the lanes of a row have: this thread's is first + t.
  __device__ int first() const { return 32 * warp + 4 * g; }
};

// Four pieces of a left factor, [16, kMost] each: four sums that do not wait for each other.
using Held = uint32_t[4][kMost / 16][4];
using Sums = float[4][4];

// What a lane has of a vector.
template <int kHalves>
using Right = uint4[kMost / 32][kHalves];

template <class Element, int kHalves>
__device__ void read_vector(const Vectors<Element, kHalves>& vectors, int which, const Lane& lane,
                            Right<kHalves>& right) {
  const Element* from =
      &vectors.of[which][lane.g % Vectors<Element, kHalves>::kColumns][8 * lane.t];
#pragma unroll
  for (int p = 0; p < kMost / 32; ++p) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) {
      right[p][half] = *reinterpret_cast<const uint4*>(from + half * kMost + 32 * p);
    }
  }
}

// sums[b] = left[b] · half b % kHalves of the vector. Meanwhile a thread has time for other things:
// calls meanwhile(q) once the q-th products of eight have begun.
template <class Element, int kHalves, class Meanwhile>
__device__ void multiply_parts(const Held& left, const Right<kHalves>& right, Sums& sums,
                               Meanwhile meanwhile) {
#pragma unroll
  for (int b = 0; b < 4; ++b) {
#pragma unroll
    for (int r = 0; r < 4; ++r) sums[b][r] = 0;
  }
#pragma unroll
  for (int q = 0; q < kMost / 16; ++q) {
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const uint4& of = right[q / 2][b % kHalves];
      if (q % 2 == 0) {
        mma_16x8x16<Element>(sums[b], left[b][q], {of.x, of.y});
      } else {
        mma_16x8x16<Element>(sums[b], left[b][q], {of.z, of.w});
      }
    }
    meanwhile(q);
  }
}

// What the columns of this lane give to the upper (0) or lower (1) rows.
template <class Element>
__device__ float joined(const float (&sums)[4], int rows) {
  return fmaf(Split<Element>::kLow, sums[2 * rows + 1], sums[2 * rows]);
}

__device__ inline float pick(const float (&of)[4], int t) {
  float even = t < 2 ? of[0] : of[2], odd = t < 2 ? of[1] : of[3];
  return t % 2 == 0 ? even : odd;
}

// of[t]; where there are four columns the neighbour has the other two.
template <class Element>
__device__ float own(const float (&of)[4], int t) {
  float sum = pick(of, t);
  if constexpr (Vectors<Element, 1>::kColumns > 2) {
    sum += __shfl_xor_sync(~0U, pick(of, t ^ 1), 1);
  }
  return sum;
}

// A number of a tensor of 16 bits as the weights are (kSame), or of any other.
template <class Element, bool kSame>
__device__ float load_number(const View& from, int64_t i) {
  if constexpr (!kSame) return load(from, i);
  return static_cast<float>(static_cast<const Element*>(from.data)[i]);
}

__device__ inline uint32_t pack(uint32_t first, uint32_t second) { return first | second << 16; }

// The state's weights as they lie: [h, 2, h] of 16 bits.
struct StateWeights {
  const uint16_t* data;
  int h;

  __device__ explicit StateWeights(const RecurrentSteps& s)
      : data(static_cast<const uint16_t*>(s.w.data) + int64_t{s.n_in} * 2 * s.h), h(s.h) {}

  __device__ uint32_t at(int row, int gate, int column) const {
    if (row >= h || column >= h) return 0;
    return data[(int64_t{row} * 2 + gate) * h + column];
  }
  // Four neighbours of a row; the first column is a multiple of four.
  __device__ uint2 four_at(int row, int gate, int column) const {
    if (h % 4 == 0 && row < h && column < h) {
      return *reinterpret_cast<const uint2*>(data + (int64_t{row} * 2 + gate) * h + column);
    }
    return {pack(at(row, gate, column), at(row, gate, column + 1)),
            pack(at(row, gate, column + 2), at(row, gate, column + 3))};
  }
};

}  // namespace sigma1::cuda
