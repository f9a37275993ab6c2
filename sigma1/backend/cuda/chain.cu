#include "sigma1/backend/cuda/chain.cuh"

#include <algorithm>
#include <array>

#include "sigma1/backend/cuda/builder.cuh"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/sixteen.cuh"
#include "sigma1/backend/cuda/turn.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda {
namespace {

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
__device__ SixteenCodes result_at(const Code<most>& code, const Groups& groups) {
  const View& out = code.out.view;
  auto read_codes = [&](const Operand& from) {
    if (from.instruction != Operand::kLoaded) return SixteenCodes{};
    return SixteenCodes::read(from.input.view, groups, out.count);
  };
  auto result = result_of<linear, most, Sixteen>(code, groups.first, groups.stride, read_codes);
  return SixteenCodes::of(result, out);
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
  result_at<linear>(code, groups).write(out, groups);
}

// The result is of 8 bits, as [rows, width] and as [width, rows], both multiples of 16.
template <bool linear, size_t most>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<most>)
    interpret_turning(const __grid_constant__ Code<most> code, uint8_t* turned, int64_t rows,
                      int64_t width) {
  __shared__ TurnRoom room;
  int64_t row = TurnRoom::first_row() + TurnRoom::row();
  int64_t column = TurnRoom::first_column() + TurnRoom::column();
  if (row < rows && column < width) {
    Groups groups{row * width + column, width};
    SixteenCodes codes = result_at<linear>(code, groups);
    codes.write(code.out.view, groups);
    uint32_t words[4] = {codes.words[0], codes.words[1], codes.words[2], codes.words[3]};
    room.put(words);
  }
  __syncthreads();
  room.take(turned, rows, width);
}

// Whether all of it can be read and written by Sixteen, to nearest.
template <size_t most>
bool packs(const Code<most>& code) {
  auto whole = [](const View& view) { return view.type != Type::index && view.count % 4 == 0; };
  bool all = code.out.packs && !code.out.stochastic && whole(code.out.view);
  for (int i = 0; i < code.count; ++i) {
    for (const Operand* each : {&code.instructions[i].x, &code.instructions[i].y}) {
      const Input& input = each->input;
      all &= each->instruction != Operand::kLoaded || (input.packs && whole(input.view));
    }
  }
  return all;
}

bool is_linear(const LongCode& code) {
  for (int i = 0; i < code.count; ++i) {
    for (const Operand* each : {&code.instructions[i].x, &code.instructions[i].y}) {
      if (each->instruction >= 0 && each->instruction != i - 1) return false;
    }
  }
  return true;
}

// A linear code where what only scales the result before it is part of that one's factor.
LongCode without_scales(const LongCode& code) {
  LongCode result;
  result.out = code.out;
  for (int i = 0; i < code.count; ++i) {
    Instruction each = code.instructions[i];
    if (each.opcode == Opcode::scale && each.x.instruction >= 0) {
      Parameters& before = result.instructions[result.count - 1].parameters;
      before.factor *= each.parameters.factor;
      before.second *= each.parameters.factor;
      continue;
    }
    for (Operand* operand : {&each.x, &each.y}) {
      if (operand->instruction >= 0) operand->instruction = result.count - 1;
    }
    result.instructions[result.count++] = each;
  }
  return result;
}

template <bool linear, size_t most>
void launch_code(const Code<most>& code, const Buffer& out) {
  constexpr int64_t kSmallestWide = 1 << 22, kLargestWide = int64_t{1} << 40;
  int64_t size = code.out.view.count;
  bool can_pack = packs(code);
  if (out.turned && can_pack) {
    int64_t width = out.shape.back(), rows = out.count() / width;
    return launch_kernel("pointwise", interpret_turning<linear, most>,
                         {turn_blocks(rows, width), kThreads}, code,
                         reinterpret_cast<uint8_t*>(out.turned), rows, width);
  }
  if (can_pack && size >= kSmallestWide && size <= kLargestWide) {
    constexpr int64_t kOfBlock = 4 * kWideStride;
    auto blocks = static_cast<unsigned>((size + kOfBlock - 1) / kOfBlock);
    launch_kernel("pointwise", interpret_wide<linear, most>, {blocks, kThreads}, code);
  } else {
    launch_kernel("pointwise", interpret<linear, most>, {blocks_for_fours(size), kThreads}, code);
  }
  if (out.turned) turn(out);
}

void launch_code(const LongCode& code, const Buffer& out) {
  if (!is_linear(code)) return launch_code<false>(code, out);
  LongCode shorter = without_scales(code);
  if (shorter.count > 1) return launch_code<true>(shorter, out);
  launch_code<true>(Code<1>{{shorter.instructions[0]}, 1, code.out}, out);
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
