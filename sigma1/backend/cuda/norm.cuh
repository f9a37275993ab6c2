// What the kernels of norms share: who computes a row, and what a row is normalised by. Private to
// this folder.
#pragma once

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/cuda/reduce.cuh"

namespace sigma1::cuda {

inline constexpr int64_t kWarpRow = 1024;  // numbers of a row that one warp computes
inline constexpr int kRowWarps = 4;        // of a block whose warps have rows of their own

// The threads that share a row: which of them this is, and sums over them that all of them get.
struct Warp {
  __device__ static int thread() { return static_cast<int>(threadIdx.x) % 32; }
  __device__ static int threads() { return 32; }
  __device__ static int row() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int rows() { return kRowWarps; }
  __device__ static float sum(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffff, value, step);
    return value;
  }
};

struct Block {
  __device__ static int thread() { return static_cast<int>(threadIdx.x); }
  __device__ static int threads() { return static_cast<int>(blockDim.x); }
  __device__ static int row() { return 0; }
  __device__ static int rows() { return 1; }
  __device__ static float sum(float value) { return block_sum(value); }
};

struct NormRow {
  float mean, inverse_scale;

  __device__ float xhat(float x) const { return (x - mean) * inverse_scale; }
};

// Calls body(column) for the columns of this thread: the same ones in every row.
template <class Team, class Body>
__device__ void for_columns(int64_t n, Body body) {
#pragma unroll 4
  for (int64_t column = Team::thread(); column < n; column += Team::threads()) body(column);
}

template <class Team, class Term>
__device__ float row_sum(int64_t n, Term term) {
  float sum = 0;
  for_columns<Team>(n, [&](int64_t column) { sum += term(column); });
  return Team::sum(sum);
}

template <class Team, bool centred>
__device__ NormRow norm_row(const View& x, int64_t first, int64_t n, float eps) {
  auto count = static_cast<float>(n);
  float mean = 0;
  if (centred) mean = row_sum<Team>(n, [&](int64_t j) { return load(x, first + j); }) / count;
  // Around the mean rather than E[x²] − μ², which loses digits.
  float square = row_sum<Team>(n, [&](int64_t j) {
    float difference = load(x, first + j) - mean;
    return difference * difference;
  });
  return {mean, 1 / sqrtf(square / count + eps)};
}

// Without data where an input is left out.
struct NormArguments {
  View x, w, c, dy, y;  // y: or dx
  int64_t n, rows;
  float eps, factor;
};

// Rows that are kept in registers, where they are wide enough for it to pay, and can be; else false
// and nothing is done.
bool normalise_held_rows(const NormArguments& arguments, bool centred);
bool find_held_gradients(const NormArguments& arguments, bool centred);

// Of norms' weights: x, dy → dw, and dc where there is one.
int64_t norm_weight_grad_workspace(const Launch& launch);
template <bool centred>
void run_norm_weight_grad(const Launch& launch);

}  // namespace sigma1::cuda
