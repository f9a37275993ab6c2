// The kernels that interpret a chain of pointwise ops. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/builder.cuh"
#include "sigma1/backend/cuda/square_sums.cuh"

namespace sigma1::cuda {

// Numbers of the result, by those that `read(operand)` has of an operand that is loaded. In a
// linear code each instruction uses the result of the one before it at most: one that stays in
// registers, while an array of them does not.
template <bool linear, size_t most, class Numbers, class Read>
__device__ Numbers result_of(const Code<most>& code, int64_t first, int64_t stride, Read read) {
  Numbers values[linear ? 1 : most];
  values[0] = {};
  auto numbers_of = [&](const Operand& from, const auto& codes) {
    if (from.instruction == Operand::kLoaded) return codes.numbers(from.input.view);
    return values[linear || from.instruction < 0 ? 0 : from.instruction];
  };
#pragma unroll 1
  for (int i = 0; i < (most == 1 ? 1 : code.count); ++i) {
    const Instruction& each = code.instructions[i];
    auto x = read(each.x), y = read(each.y);
    values[linear ? 0 : i] = apply(each.opcode, numbers_of(each.x, x), numbers_of(each.y, y),
                                   each.parameters, first, stride);
  }
  return values[linear ? 0 : code.count - 1];
}

// Numbers that were loaded.
struct ReadFour {
  Four four;
  __device__ const Four& numbers(const View&) const { return four; }
};

template <bool linear, size_t most>
__global__ void interpret(const __grid_constant__ Code<most> code) {
  int64_t size = code.out.view.count;
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
    auto read_four = [&](const Operand& from) {
      bool is_loaded = from.instruction == Operand::kLoaded;
      return is_loaded ? ReadFour{read(from.input, first, size)} : ReadFour{};
    };
    write(code.out, first, result_of<linear, most, Four>(code, first, 4, read_four));
  }
}

template <bool linear, size_t most>
__device__ Sixteen result_at(const Code<most>& code, const Groups& groups) {
  auto read_codes = [&](const Operand& from) {
    if (from.instruction != Operand::kLoaded) return SixteenCodes{};
    return SixteenCodes::read(from.input.view, groups, code.out.view.count);
  };
  return result_of<linear, most, Sixteen>(code, groups.first, groups.stride, read_codes);
}

// Most launches are of one op, which needs fewer registers.
template <size_t most>
constexpr int kBlocksAtOnce = most == 1 ? 4 : 3;

constexpr int64_t kWideStride = 4 * kThreads;
template <bool linear, size_t most>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<most>)
    interpret_wide(const __grid_constant__ Code<most> code) {
  const View& out = code.out.view;
  int64_t first = int64_t{blockIdx.x} * 4 * kWideStride + 4 * threadIdx.x;
  if (first >= out.count) return;
  int64_t inside = (out.count - first + kWideStride - 1) / kWideStride;
  Groups groups{first, kWideStride, inside < 4 ? static_cast<int>(inside) : 4};
  SixteenCodes::of(result_at<linear>(code, groups), out).write(out, groups);
}

template <bool linear, size_t most, bool sums>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<most>)
    interpret_squares(const __grid_constant__ Code<most> code, SquareTarget to) {
  __shared__ TurnRoom room;
  __shared__ SquareSums columns;
  int64_t row = TurnRoom::first_row() + TurnRoom::row();
  int64_t column = TurnRoom::first_column() + TurnRoom::column();
  Sixteen result{};
  if (row < to.rows && column < to.width) {
    Groups groups{row * to.width + column, to.width};
    result = result_at<linear>(code, groups);
    SixteenCodes codes = SixteenCodes::of(result, code.out.view);
    codes.write(code.out.view, groups);
    uint32_t words[4] = {codes.words[0], codes.words[1], codes.words[2], codes.words[3]};
    if (to.turned) room.put(words);
  }
  if constexpr (sums) {
    Four four;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      four.at[k] = (result.at[k] + result.at[4 + k]) + (result.at[8 + k] + result.at[12 + k]);
    }
    columns.put(four);
  }
  __syncthreads();
  if (to.turned) room.take(to.turned, to.rows, to.width);
  if constexpr (sums) columns.take(to.partials, to.width);
}

}  // namespace sigma1::cuda
