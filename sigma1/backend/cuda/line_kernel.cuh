// The kernel of line chains. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/eight.cuh"
#include "sigma1/backend/cuda/line_plan.cuh"
#include "sigma1/backend/cuda/line_turn.cuh"
#include "sigma1/backend/cuda/norm_held.cuh"

namespace sigma1::cuda {

inline constexpr int kLineThreads = 256;

// Numbers are divided and summed as in norms that run alone.
template <int kWarps>
using LineTeam = RowTeam<kWarps, kLineThreads / (32 * kWarps)>;

// To the largest number of 16 bits; 8 bits do by themselves.
__device__ inline void saturate(Eight& numbers, Type type) {
  const float largest = type == Type::fp16 ? 65504 : 0x1.fep127f;
#pragma unroll
  for (float& each : numbers.at) {
    if (fabsf(each) > largest) each = copysignf(largest, each);
  }
}

// A row on its way through steps of any form, which are interpreted.
template <Type kType, int kWarps, int kPacks>
class Line {
 public:
  using Team = LineTeam<kWarps>;
  static constexpr int kStride = kTurnStride<Team, kPacks>;
  static constexpr int kBlocks = kType == Type::fp32 ? 1 : 2;  // of a multiprocessor

  __device__ Line(const LineCode& code, int64_t row) : code_(code), row_(row) {
    fill_slots(code.first_inputs);
  }

  // `room` has the codes of the result that is turned.
  __device__ __forceinline__ void run(uint32_t* room) {
#pragma unroll 1
    for (int s = 0; s < code_.step_count; ++s) {
      const LineStep& step = code_.steps[s];
      switch (step.op) {
        case LineOp::norm:
          normalise(step);
          break;
        case LineOp::norm_grad:
          find_gradient(step);
          break;
        case LineOp::pointwise:
          combine(step);
          break;
      }
      fill_slots(step.refills);
      if (step.ends) finish(step, room);
    }
  }

 private:
  // Zeros behind the row's end.
  __device__ __forceinline__ void fill_slots(const int (&inputs)[kLineSlots]) {
#pragma unroll
    for (int slot = 0; slot < kLineSlots; ++slot) {
      if (inputs[slot] < 0) continue;
      const LineInput& from = code_.inputs[inputs[slot]];
      const int64_t row = from.rows == code_.rows ? row_ : row_ % from.rows;
      const View view{from.data, kType, false, nullptr, 0};
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        slots_[slot][i] = ReadPacks<kType>::read(view, code_.width, row, Team::column(i));
      }
    }
  }

  __device__ __forceinline__ Eight operand(int from, int pack) const {
    if (from == kLineCurrent) return current_[pack];
    return from == 1 ? slots_[1][pack].numbers() : slots_[2][pack].numbers();
  }

  __device__ bool is_inside(int pack) const { return Team::column(pack) < code_.width; }

  __device__ __forceinline__ void combine(const LineStep& step) {
    const Parameters p{step.factor, step.multiplier, step.second};
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const Eight x = operand(step.x, i), y = operand(step.y, i);
      switch (step.opcode) {
        case Opcode::relu:
          current_[i] = apply(Opcode::relu, x, y, p, 0);
          break;
        case Opcode::relu_grad:
          current_[i] = apply(Opcode::relu_grad, x, y, p, 0);
          break;
        case Opcode::multiply:
          current_[i] = apply(Opcode::multiply, x, y, p, 0);
          break;
        case Opcode::scale:
          current_[i] = apply(Opcode::scale, x, y, p, 0);
          break;
        case Opcode::add:
          current_[i] = apply(Opcode::add, x, y, p, 0);
          break;
        default:
          current_[i] = apply(Opcode::combine, x, y, p, 0);
      }
    }
  }

  // numbers(pack) are zeros behind the row's end.
  template <class Numbers>
  __device__ __forceinline__ NormRow moments(const LineStep& step, Numbers numbers) const {
    auto count = static_cast<float>(code_.width);
    float mean = 0, square = 0;
    if (step.centred) {
#pragma unroll
      for (int i = 0; i < kPacks; ++i) {
        Eight x = numbers(i);
#pragma unroll
        for (float each : x.at) mean += each;
      }
      mean = Team::sum(mean) / count;
    }
    // Around the mean rather than E[x²] − μ², which loses digits.
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Eight x = numbers(i);
      float shift = is_inside(i) ? mean : 0;
#pragma unroll
      for (float each : x.at) square += (each - shift) * (each - shift);
    }
    return {mean, 1 / sqrtf(Team::sum(square) / count + step.eps)};
  }

  // Weights and biases mostly have the type of the rows.
  __device__ __forceinline__ Eight vector_at(const View& vector, int pack) const {
    if (kType == Type::fp32 || vector.type == Type::fp32) {
      return EightCodes<Type::fp32>::at(vector.data, Team::column(pack)).numbers();
    }
    return EightCodes<kType>::at(vector.data, Team::column(pack)).numbers();
  }

  __device__ __forceinline__ void normalise(const LineStep& step) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) current_[i] = operand(step.x, i);
    NormRow norm = moments(step, [&](int i) -> const Eight& { return current_[i]; });
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Eight& y = current_[i];
#pragma unroll
      for (float& each : y.at) each = norm.xhat(each);
      if (step.w.data && is_inside(i)) {
        Eight w = vector_at(step.w, i);
#pragma unroll
        for (int k = 0; k < 8; ++k) y.at[k] *= w.at[k];
      }
      if (step.c.data && is_inside(i)) {
        Eight c = vector_at(step.c, i);
#pragma unroll
        for (int k = 0; k < 8; ++k) y.at[k] += c.at[k];
      }
#pragma unroll
      for (float& each : y.at) each *= step.factor;
    }
  }

  // With respect to the rows alone; what w and c get is summed over all rows, elsewhere.
  __device__ __forceinline__ void find_gradient(const LineStep& step) {
    const auto& x = slots_[0];
    NormRow norm = moments(step, [&](int i) { return x[i].numbers(); });
    float means[2] = {0, 0};  // of dx̂ and of dx̂·x̂
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Eight& dxhat = current_[i];
      dxhat = operand(step.y, i);
      if (step.w.data && is_inside(i)) {
        Eight w = vector_at(step.w, i);
#pragma unroll
        for (int k = 0; k < 8; ++k) dxhat.at[k] *= w.at[k];
      }
      Eight numbers = x[i].numbers();
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        means[0] += dxhat.at[k];
        means[1] += dxhat.at[k] * norm.xhat(numbers.at[k]);
      }
    }
    Team::sum(means);
    auto count = static_cast<float>(code_.width);
    const float mean = step.centred ? means[0] / count : 0, along = means[1] / count;
    const float outer = step.factor * norm.inverse_scale;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Eight numbers = x[i].numbers();
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        float& at = current_[i].at[k];
        at = outer * (at - mean - norm.xhat(numbers.at[k]) * along);
      }
    }
  }

  // Rounds an op's result, and stores it where it is wanted.
  __device__ __forceinline__ void finish(const LineStep& step, uint32_t* room) {
    const bool is_wide = step.out.type == Type::fp16 || step.out.type == Type::bf16;
    if (step.out.saturates && is_wide) {
#pragma unroll
      for (Eight& pack : current_) saturate(pack, step.out.type);
    }
    switch (step.out.type) {
      case Type::fp16:
        return put<Type::fp16>(step, room);
      case Type::bf16:
        return put<Type::bf16>(step, room);
      case Type::e4m3:
        return put<Type::e4m3>(step, room);
      case Type::e5m2:
        return put<Type::e5m2>(step, room);
      default:
        return put<Type::fp32>(step, room);
    }
  }

  template <Type kOut>
  __device__ __forceinline__ void put(const LineStep& step, uint32_t* room) {
    constexpr bool kNarrow = EightCodes<kOut>::kWords == 2;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (!is_inside(i)) {
        current_[i] = {};
        continue;
      }
      const int column = Team::column(i);
      auto codes = EightCodes<kOut>::of(current_[i], kNarrow);
      if (step.out.data) codes.write(step.out.data, row_ * code_.width + column);
      if constexpr (kNarrow) {
        if (step.out.turns) put_for_turn(room, column, codes.words[0], codes.words[1]);
      }
      if (!step.is_last) current_[i] = codes.numbers();
    }
  }

  const LineCode& code_;
  const int64_t row_;
  EightCodes<kType> slots_[kLineSlots][kPacks];
  Eight current_[kPacks];
};

template <class Line>
__global__ void __launch_bounds__(kLineThreads, Line::kBlocks)
    line_chain_kernel(const __grid_constant__ LineCode code) {
  using Team = Line::Team;
  extern __shared__ __align__(16) uint32_t turn_room[];
  const int64_t first = int64_t{blockIdx.x} * code.rows_of_block;
#pragma unroll 1
  for (int i = Team::row(); i < code.rows_of_block && first + i < code.rows; i += Team::kRows) {
    Line(code, first + i).run(turn_room + turn_place(i, Line::kStride));
  }
  if (code.turned == nullptr) return;
  __syncthreads();
  write_turned<kLineThreads, Line::kStride>(code, turn_room, first);
}

}  // namespace sigma1::cuda
