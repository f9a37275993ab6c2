// The kernel of line chains that sum over rows: a team adds its columns of one row after another
// to registers, the teams of a block are added up in their order, and so are blocks, later. Private
// to this folder.
#pragma once

#include "sigma1/backend/cuda/line_form.cuh"

namespace sigma1::cuda {

// Those of a team.
template <class Team, int kPacks>
struct LineSums {
  static constexpr bool kAreFound = true;
  Eight of[kLineSums][kPacks] = {};

  __device__ __forceinline__ void add(int sum, int pack, const Eight& numbers) {
#pragma unroll
    for (int k = 0; k < 8; ++k) of[sum][pack].at[k] += numbers.at[k];
  }

  // Those of a block go to its place in code.sums. All threads must come here; nobody uses `room`.
  __device__ void write(const LineCode& code, float* room) const {
    float* result = code.sums + int64_t{blockIdx.x} * kLineSums * code.width;
#pragma unroll 1
    for (int team = 0; team < Team::kRows; ++team) {
      if (Team::row() == team)
        write(code, team > 0 ? room : nullptr, team + 1 == Team::kRows ? result : room);
      __syncthreads();
    }
  }

 private:
  using Codes = EightCodes<Type::fp32>;

  __device__ void write(const LineCode& code, const float* before, float* to) const {
#pragma unroll
    for (int sum = 0; sum < kLineSums; ++sum) {
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        if (Team::column(i) >= code.width) continue;
        const int at = sum * code.width + Team::column(i);
        Eight numbers = of[sum][i];
        if (before) {
          const Eight others = Codes::at(before, at).numbers();
#pragma unroll
          for (int k = 0; k < 8; ++k) numbers.at[k] = others.at[k] + numbers.at[k];
        }
        Codes::of(numbers, false).write(to, at);
      }
    }
  }
};

template <class Line>
__global__ void __launch_bounds__(Line::Team::kBlockThreads, Line::kBlocks)
    line_sums_kernel(const __grid_constant__ LineCode code) {
  using Team = Line::Team;
  extern __shared__ __align__(16) uint32_t sums_room[];
  const int block = static_cast<int>(blockIdx.x), more = code.turned ? kTurnedLines : Team::kRows;
  const int first = block * code.rows_of_block + min(block, code.longer_blocks) * more;
  const int own = code.rows_of_block + (block < code.longer_blocks ? more : 0);
  const int end = min(first + own, static_cast<int>(code.rows));
  Line line(code, first + Team::row(), end);
#pragma unroll 1
  for (int turn = first; turn < end; turn += kTurnedLines) {
#pragma unroll 1
    while (line.row() < end && line.row() - turn < kTurnedLines) {
      line.run(sums_room + (line.row() - turn) * code.turned_stride);
    }
    if (code.turned == nullptr) continue;
    __syncthreads();
    write_turned<Team::kBlockThreads>(code, sums_room, turn);
    __syncthreads();
  }
  line.sums().write(code, reinterpret_cast<float*>(sums_room));
}

}  // namespace sigma1::cuda
