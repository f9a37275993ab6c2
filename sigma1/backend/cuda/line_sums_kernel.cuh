// The kernel of line chains that sum over rows: a team adds its columns of one row after another
// to registers, the teams of a block are added up in their order, and so are blocks, later. Private
// to this folder.
#pragma once

#include "sigma1/backend/cuda/line_stage.cuh"
#include "sigma1/backend/cuda/line_steps.cuh"

namespace sigma1::cuda {

// Those of a team. Where a thread has three packs, registers do for two sums of each; what is added
// last, the sum of a result, then has a place in shared memory that no other thread sees.
template <class Team, int kPacks>
class LineSums {
  static constexpr bool kUsesRoom = kPacks > 2;

 public:
  static constexpr bool kAreFound = true;

  // Of a block.
  struct Room {
    float4 of_results[kUsesRoom ? 2 * kPacks * Team::kBlockThreads : 1];
  };

  __device__ explicit LineSums(Room& room) : room_(room) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) set_results(i, {});
  }

  __device__ __forceinline__ void add(int sum, int pack, const Eight& numbers) {
    if (sum != kColumnSum) return add_to(held_[sum][pack], numbers);
    Eight results = of(kColumnSum, pack);
    add_to(results, numbers);
    set_results(pack, results);
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

  __device__ __forceinline__ static void add_to(Eight& sums, const Eight& numbers) {
#pragma unroll
    for (int k = 0; k < 8; ++k) sums.at[k] += numbers.at[k];
  }

  __device__ __forceinline__ Eight of(int sum, int pack) const {
    if (!kUsesRoom || sum != kColumnSum) return held_[sum][pack];
    const float4 low = place(pack, 0), high = place(pack, 1);
    return {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  }
  __device__ __forceinline__ void set_results(int pack, const Eight& sums) {
    if constexpr (kUsesRoom) {
      const auto& at = sums.at;
      place(pack, 0) = {at[0], at[1], at[2], at[3]};
      place(pack, 1) = {at[4], at[5], at[6], at[7]};
    } else {
      held_[kColumnSum][pack] = sums;
    }
  }
  __device__ float4& place(int pack, int half) const {
    return room_.of_results[(2 * pack + half) * Team::kBlockThreads + threadIdx.x];
  }

  __device__ void write(const LineCode& code, const float* before, float* to) const {
#pragma unroll
    for (int sum = 0; sum < kLineSums; ++sum) {
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        if (Team::column(i) >= code.width) continue;
        const int at = sum * code.width + Team::column(i);
        Eight numbers = of(sum, i);
        if (before) add_to(numbers, Codes::at(before, at).numbers());
        Codes::of(numbers, false).write(to, at);
      }
    }
  }

  Room& room_;
  Eight held_[kLineSums][kPacks] = {};
};

// One of a team's rows after another, through kBefore sums, a norm's gradient and kAfter sums.
// Registers are for the sums: rows stay in shared memory until they are used.
template <Type kType, class Warps, int kPacks, int kBefore, int kAfter>
class SummedLine : LineSteps<kType, Warps, kPacks, LineSums<Warps, kPacks>> {
  using Sums = LineSums<Warps, kPacks>;
  using Steps = LineSteps<kType, Warps, kPacks, Sums>;
  using Codes = Steps::Codes;
  using Steps::code_, Steps::first_;
  // The planner has x behind what dy is the sum of, and then what is added to the gradient.
  static constexpr int kX = kBefore + 1, kOthers = kX + 1, kInputs = kOthers + kAfter;
  static_assert(kInputs <= kMostFormInputs);
  using Stage = LineStage<kType, Warps, kInputs, kPacks>;

 public:
  using Team = Warps;
  using Steps::kStride;
  struct Room {
    Stage::Room rows;
    Sums::Room sums;
    uint4 weights[kPacks][Team::kThreads];
  };
  static constexpr int kBlocks = 2;  // of a multiprocessor

  // The team's rows before `end`. All threads of the block come here.
  __device__ SummedLine(const LineCode& code, int row, int end, Room& room)
      : Steps(code, row, room.sums),
        row_(row),
        end_(end),
        stage_(code, room.rows),
        weights_(room.weights) {
    // In the order in which run() does.
    ask(kX, 1, 0);
    ask(0, kX, 0);
    if constexpr (kAfter > 0) ask(kOthers, kAfter, 0);
    if (Team::row() == 0) {
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        const Codes w = this->vector_pack(code.steps[kBefore].w, i, Steps::kOnes);
        weights_[i][Team::thread()] = {w.words[0], w.words[1], w.words[2], w.words[3]};
      }
    }
    __syncthreads();
  }

  // That run() takes next.
  __device__ int row() const { return row_; }
  // When there is none.
  __device__ const Sums& finish() {
    stage_.template wait<0>();
    return this->sums_;
  }

  // `room` has the codes of the result that is turned.
  __device__ __forceinline__ void run(uint32_t* room) {
    const LineStep& step = code_.steps[kBefore];
    Codes x[kPacks];
    stage_.template wait<kLater>();
#pragma unroll
    for (int i = 0; i < kPacks; ++i) x[i] = stage_.pack(kX, i);
    ask(kX, 1, Team::kRows);
    const NormRow norm = this->moments(step, x);
    Eight dxhat[kPacks];
    float sums[2] = {0, 0};
    stage_.template wait<kLater>();
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const Codes dy = this->template joined<kBefore>(i, stage_.pack(0, i),
                                                      [&](int s) { return stage_.pack(s + 1, i); });
      dxhat[i] = this->find_dxhat(norm, i, dy, weights(i), x[i], sums);
    }
    ask(0, kX, Team::kRows);
    this->keep_codes(x);
    Team::template sum_at<2>(sums);
    const typename Steps::GradientRow gradient(step, norm, sums, code_.share);
    if constexpr (kAfter > 0) stage_.template wait<kLater>();
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      this->template finish_norm<kBefore, kAfter>(
          i, gradient.dx(dxhat[i], x[i]), [&](int k) { return stage_.pack(kOthers + k, i); }, room);
    }
    if constexpr (kAfter > 0) ask(kOthers, kAfter, Team::kRows);
    row_ += Team::kRows;
    first_ += int64_t{Team::kRows} * code_.width;
  }

 private:
  // When run() waits for some inputs, it has asked for the others since.
  static constexpr int kLater = kAfter > 0 ? 2 : 1;

  // For so many inputs of a row that is so far behind this one.
  __device__ __forceinline__ void ask(int first, int count, int rows) {
    stage_.ask(first, count, first_ + int64_t{rows} * code_.width, row_ + rows < end_);
  }

  __device__ __forceinline__ Codes weights(int pack) const {
    const uint4 four = weights_[pack][Team::thread()];
    return {four.x, four.y, four.z, four.w};
  }

  int row_;
  const int end_;
  Stage stage_;
  uint4 (&weights_)[kPacks][Team::kThreads];
};

template <class Line>
__global__ void __launch_bounds__(Line::Team::kBlockThreads, Line::kBlocks)
    line_sums_kernel(const __grid_constant__ LineCode code) {
  using Team = Line::Team;
  extern __shared__ __align__(16) std::byte memory[];
  auto& lines = *reinterpret_cast<Line::Room*>(memory);
  auto* room = reinterpret_cast<uint32_t*>(memory + sizeof(typename Line::Room));
  const int block = static_cast<int>(blockIdx.x), more = code.turned ? kTurnedLines : Team::kRows;
  const int first = block * code.rows_of_block + min(block, code.longer_blocks) * more;
  const int own = code.rows_of_block + (block < code.longer_blocks ? more : 0);
  const int end = min(first + own, static_cast<int>(code.rows));
  Line line(code, first + Team::row(), end, lines);
#pragma unroll 1
  for (int turn = first; turn < end; turn += kTurnedLines) {
#pragma unroll 1
    while (line.row() < end && line.row() - turn < kTurnedLines) {
      line.run(room + turn_place(line.row() - turn, Line::kStride));
    }
    if (code.turned == nullptr) continue;
    __syncthreads();
    write_turned<Team::kBlockThreads, Line::kStride>(code, room, turn);
    __syncthreads();
  }
  line.finish().write(code, reinterpret_cast<float*>(room));
}

}  // namespace sigma1::cuda
