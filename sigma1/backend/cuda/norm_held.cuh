// Rows of norms that threads keep in registers, so that they are read once: a warp has a row of up
// to 1024 numbers, a block a wider one. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/eight.cuh"
#include "sigma1/backend/cuda/norm.cuh"

namespace sigma1::cuda {

inline constexpr int64_t kWidestHeldNorm = 8192;

// kWarps of them share a row, and a block has kTeams such rows at once.
template <int kWarps, int kTeams = kWarps == 1 ? kRowWarps : 1>
struct RowTeam {
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kRows = kTeams;  // of a block
  static constexpr int kBlockThreads = kThreads * kRows;

  __device__ static int thread() { return static_cast<int>(threadIdx.x) % kThreads; }
  __device__ static int row() { return static_cast<int>(threadIdx.x) / kThreads; }
  // The first of the eight columns of a thread's pack.
  __device__ static int column(int pack) { return 8 * thread() + from_first(pack); }
  __device__ static constexpr int from_first(int pack) { return 8 * pack * kThreads; }

  // Each value becomes its sum over the team.
  template <int kCount>
  __device__ static void sum(float (&values)[kCount]) {
    meet();  // a call before this one may still be read
    sum_at<0>(values);
  }
  // The same, where the call before this one was for another place, or the team has met since.
  template <int kPlace, int kCount>
  __device__ static void sum_at(float (&values)[kCount]) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
#pragma unroll
      for (float& each : values) each += __shfl_xor_sync(0xffffffff, each, step);
    }
    if constexpr (kWarps > 1) {
      __shared__ float of_teams[kTeams][kCount][kWarps];
      float(&of_warps)[kCount][kWarps] = of_teams[row()];
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        if (threadIdx.x % 32 == 0) of_warps[i][thread() / 32] = values[i];
      }
      meet();
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        values[i] = of_warps[i][0];
#pragma unroll
        for (int warp = 1; warp < kWarps; ++warp) values[i] += of_warps[i][warp];
      }
    }
  }
  __device__ static float sum(float value) {
    float values[1] = {value};
    sum(values);
    return values[0];
  }
  template <int kPlace>
  __device__ static float sum_at(float value) {
    float values[1] = {value};
    sum_at<kPlace>(values);
    return values[0];
  }

  // For the team alone: others may have fewer rows. Barrier 0 is the block's.
  __device__ static void meet() {
    if constexpr (kWarps > 1) {
      asm volatile("bar.sync %0, %1;" ::"r"(1 + row()), "n"(kThreads) : "memory");
    }
  }
};

// The thread's part of a row, zeros behind its end, or all where it is not `inside`.
template <class Team, Type kType, int kPacks>
struct RowCodes {
  EightCodes<kType> of[kPacks];

  __device__ void read(const View& from, int64_t n, int64_t row, bool inside = true) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      of[i] = ReadPacks<kType>::read(from, n, row, Team::column(i), inside);
    }
  }

  __device__ NormRow moments(int64_t n, bool centred, float eps) const {
    auto count = static_cast<float>(n);
    float mean = 0, square = 0;
    if (centred) {
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        Eight x = of[i].numbers();
#pragma unroll
        for (float each : x.at) mean += each;
      }
      mean = Team::sum(mean) / count;
    }
    // Around the mean rather than E[x²] − μ², which loses digits.
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Eight x = of[i].numbers();
      float shift = Team::column(i) < n ? mean : 0;
#pragma unroll
      for (float each : x.at) square += (each - shift) * (each - shift);
    }
    return {mean, 1 / sqrtf(Team::sum(square) / count + eps)};
  }
};

// Calls body.operator()<kWarps, kPacks>() for rows of n.
template <class Body>
auto with_held_size(int64_t n, Body body) {
  if (n <= 256) return body.template operator()<1, 1>();
  if (n <= 512) return body.template operator()<1, 2>();
  if (n <= 768) return body.template operator()<1, 3>();
  if (n <= 1024) return body.template operator()<1, 4>();
  if (n <= 2048) return body.template operator()<4, 2>();
  if (n <= 3072) return body.template operator()<4, 3>();
  if (n <= 4096) return body.template operator()<4, 4>();
  return body.template operator()<8, 4>();
}

// Whether rows can be held whose numbers are of the type of `view`: then calls
// body.operator()<kType>().
template <class Body>
bool with_held_type(const View& view, int64_t n, Body body) {
  if (!packs_eight(view, n) || view.scale != nullptr || n > kWidestHeldNorm) return false;
  switch (view.type) {
    case Type::fp16:
      body.template operator()<Type::fp16>();
      return true;
    case Type::bf16:
      body.template operator()<Type::bf16>();
      return true;
    case Type::fp32:
      body.template operator()<Type::fp32>();
      return true;
    default:
      return false;
  }
}

}  // namespace sigma1::cuda
