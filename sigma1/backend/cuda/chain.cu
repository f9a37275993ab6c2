#include "sigma1/backend/cuda/chain.cuh"

#include <algorithm>
#include <array>

#include "sigma1/backend/cuda/builder.cuh"
#include "sigma1/backend/cuda/eight.cuh"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/turn.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda {
namespace {

// Four neighbours of the result. Most launches are of one op, whose value needs no array.
template <size_t most>
__device__ Four result_at(const Code<most>& code, int64_t first) {
  int64_t size = code.out.view.count;
  if constexpr (most == 1) {
    const Instruction& op = code.instructions[0];
    Four x = read(op.x.input, first, size), y{};
    if (op.y.instruction == Operand::kLoaded) y = read(op.y.input, first, size);
    return apply(op.opcode, x, y, op.parameters, first);
  } else {
    Four values[most] = {};
    auto operand = [&](const Operand& from) {
      if (from.instruction == Operand::kNone) return Four{};
      if (from.instruction == Operand::kLoaded) return read(from.input, first, size);
      return values[from.instruction];
    };
#pragma unroll 1
    for (int i = 0; i < code.count; ++i) {
      const Instruction& each = code.instructions[i];
      Four x = operand(each.x), y = operand(each.y);
      values[i] = apply(each.opcode, x, y, each.parameters, first);
    }
    return values[code.count - 1];
  }
}

template <size_t most>
__global__ void interpret(const __grid_constant__ Code<most> code) {
  int64_t size = code.out.view.count;
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
    write(code.out, first, result_at(code, first));
  }
}

// An operand of eight neighbours: codes that are loaded, or the result of an instruction.
struct WideOperand {
  const Operand& from;
  AnyCodes codes{};

  __device__ WideOperand(const Operand& operand, int64_t first, int64_t size) : from(operand) {
    if (from.instruction != Operand::kLoaded) return;
    int64_t period = from.input.view.count;
    codes = AnyCodes::at(from.input.view, period == size ? first : first % period);
  }
  __device__ Eight numbers(const Eight* values) const {
    if (from.instruction == Operand::kLoaded) return codes.numbers(from.input.view);
    return from.instruction == Operand::kNone ? Eight{} : values[from.instruction];
  }
};

// Eight neighbours of each of a block's threads at once, and of one op another eight, which are on
// their way meanwhile.
constexpr int64_t kWideStride = 8 * kThreads;
template <size_t most>
constexpr int kWidePacks = most == 1 ? 2 : 1;

template <size_t most>
__global__ void __launch_bounds__(kThreads)
    interpret_wide(const __grid_constant__ Code<most> code) {
  const View& out = code.out.view;
  const int64_t size = out.count;
  int64_t first = int64_t{blockIdx.x} * kWidePacks<most> * kWideStride + 8 * threadIdx.x;
  if constexpr (most == 1) {
    const Instruction& op = code.instructions[0];
    const int64_t second = first + kWideStride;
    if (first >= size) return;
    const bool both = second < size;
    WideOperand x(op.x, first, size), y(op.y, first, size);
    WideOperand next_x(op.x, both ? second : first, size),
        next_y(op.y, both ? second : first, size);
    auto finish = [&](const WideOperand& a, const WideOperand& b, int64_t at) {
      Eight result = apply(op.opcode, a.numbers(nullptr), b.numbers(nullptr), op.parameters, at);
      store_eight(out, at, result);
    };
    finish(x, y, first);
    if (both) finish(next_x, next_y, second);
  } else {
    if (first >= size) return;
    Eight values[most];
#pragma unroll 1
    for (int i = 0; i < code.count; ++i) {
      const Instruction& each = code.instructions[i];
      WideOperand x(each.x, first, size), y(each.y, first, size);
      values[i] = apply(each.opcode, x.numbers(values), y.numbers(values), each.parameters, first);
    }
    store_eight(out, first, values[code.count - 1]);
  }
}

// Whether the result is large enough that it pays, and all of it can be read and written so.
template <size_t most>
bool is_wide(const Code<most>& code) {
  constexpr int64_t kSmallest = 1 << 22, kLargest = int64_t{1} << 40;
  int64_t size = code.out.view.count;
  if (size < kSmallest || size > kLargest || code.out.stochastic) return false;
  bool wide = packs_eight(code.out.view, size);
  for (int i = 0; i < code.count; ++i) {
    for (const Operand* each : {&code.instructions[i].x, &code.instructions[i].y}) {
      const View& view = each->input.view;
      wide &= each->instruction != Operand::kLoaded || packs_eight(view, view.count);
    }
  }
  return wide;
}

// The result is of 8 bits, as [rows, width] and as [width, rows], both multiples of 16.
template <size_t most>
__global__ void interpret_turning(const __grid_constant__ Code<most> code, uint8_t* turned,
                                  int64_t rows, int64_t width) {
  __shared__ TurnRoom room;
  int64_t row0 = int64_t{blockIdx.x} * kTurnSide, column0 = int64_t{blockIdx.y} * kTurnSide;
  int64_t row = row0 + TurnRoom::row(), column = column0 + TurnRoom::column();
  if (row < rows && column < width) {
    uint4 piece;
    uint32_t* words = &piece.x;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      View word{&words[i], code.out.view.type, code.out.view.saturates, nullptr, 4};
      store_four(word, 0, result_at(code, row * width + column + 4 * i));
    }
    reinterpret_cast<uint4*>(code.out.view.data)[(row * width + column) / 16] = piece;
    room.put(piece);
  }
  __syncthreads();
  int64_t turned_row = column0 + TurnRoom::row(), turned_column = row0 + TurnRoom::column();
  if (turned_row < width && turned_column < rows) {
    *reinterpret_cast<uint4*>(turned + turned_row * rows + turned_column) = room.take();
  }
}

template <size_t most>
void launch_code(const Code<most>& code, const Buffer* kept_turned) {
  if (kept_turned) {
    int64_t width = kept_turned->shape.back(), rows = kept_turned->count() / width;
    launch_kernel("pointwise", interpret_turning<most>, {turn_blocks(rows, width), kThreads}, code,
                  reinterpret_cast<uint8_t*>(kept_turned->turned), rows, width);
  } else if (is_wide(code)) {
    constexpr int64_t kOfBlock = kWidePacks<most> * kWideStride;
    auto blocks = static_cast<unsigned>((code.out.view.count + kOfBlock - 1) / kOfBlock);
    launch_kernel("pointwise", interpret_wide<most>, {blocks, kThreads}, code);
  } else {
    Grid grid{blocks_for_fours(code.out.view.count), kThreads};
    launch_kernel("pointwise", interpret<most>, grid, code);
  }
}

void launch_code(const LongCode& code, const Buffer& out) {
  const Buffer* kept_turned = out.turned ? &out : nullptr;
  if (code.count == 1) {
    launch_code(Code<1>{{code.instructions[0]}, 1, code.out}, kept_turned);
  } else {
    launch_code(code, kept_turned);
  }
}

// A sum of more terms than one kernel takes, by way of fp32 numbers in the workspace.
void run_long_sum(Opcode opcode, const Launch& launch) {
  int64_t size = launch.out().count();
  size_t terms = launch.inputs.size();
  auto* sums = reinterpret_cast<float*>(launch.workspace.data());
  auto operand = [&](size_t i) { return loaded(launch.in(i)); };
  Operand before;
  for (size_t first = 0; first < terms; first += kMostInstructions) {
    size_t last = std::min(first + kMostInstructions, terms);
    Builder builder;
    builder.append_sum(launch, opcode, first, last, operand, before);
    bool is_last = last == terms;
    builder.code.out = is_last ? output_of(launch) : output_of(sums, size);
    launch_code(builder.code, is_last ? launch.out() : Buffer{});
    before = {Operand::kLoaded, input_of(sums, size)};
  }
}

}  // namespace

bool is_pointwise(const OpDef& op) { return find(op) != nullptr; }

bool fits(std::span<const ChainStep> steps) {
  size_t instructions = 0;
  for (const ChainStep& each : steps) instructions += instructions_for(each.launch.inputs.size());
  return instructions <= kMostInstructions;
}

PointwiseChain::PointwiseChain(std::vector<ChainStep> steps) : steps_(std::move(steps)) {
  if (steps_.empty() || !fits(steps_)) throw Bug("a chain of {} steps does not fit", steps_.size());
}

void PointwiseChain::run(uint64_t step) {
  std::array<int, kMostInstructions> results{};
  Builder builder;
  for (size_t s = 0; s < steps_.size(); ++s) {
    builder.append(steps_[s], results, step);
    results[s] = builder.code.count - 1;
  }
  builder.code.out = output_of(steps_.back().launch);
  launch_code(builder.code, steps_.back().launch.out());
}

void run_pointwise(const OpDef& op, const Launch& launch) {
  if (instructions_for(launch.inputs.size()) > kMostInstructions) {
    return run_long_sum(find(op)->opcode, launch);
  }
  Builder builder;
  builder.append({&op, launch, {}}, {}, launch.step);
  builder.code.out = output_of(launch);
  launch_code(builder.code, launch.out());
}

int64_t pointwise_workspace(const Launch& launch) {
  bool fits_one = instructions_for(launch.inputs.size()) <= kMostInstructions;
  return fits_one ? 0 : launch.out().count() * static_cast<int64_t>(sizeof(float));
}

}  // namespace sigma1::cuda
