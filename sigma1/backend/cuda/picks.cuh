// Rows that indices name, and sums over those who name the same row. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/kernel.cuh"

namespace sigma1::cuda {

// Indices into rows of d numbers: `picks` into each of several tables of `rows`. A lookup in one
// table is the case of a single one.
struct Picks {
  const int32_t* indices;
  int64_t count;
  int64_t rows, picks, d;

  // −1 where the index names no row: a kernel cannot throw.
  __device__ int64_t row(int64_t i) const {
    int32_t index = indices[i];
    return 0 <= index && index < rows ? i / picks * rows + index : -1;
  }
};

// Of few picks: each row's sum of what its picks have in `from`, in their order, times factor;
// zeros for a row without any.
inline constexpr int64_t kFewPicks = 4096;
void sum_few_picks(const Picks& picks, const View& from, const View& to, int64_t all_rows,
                   float factor);

// The same of more, with room for sorting them.
int64_t many_picks_workspace(int64_t count, int64_t all_rows);
void sum_many_picks(const Picks& picks, const View& from, const View& to, int64_t all_rows,
                    float factor, std::span<std::byte> workspace);

}  // namespace sigma1::cuda
