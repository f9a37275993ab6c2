#include "sigma1/backend/cuda/chain.cuh"

#include <algorithm>
#include <array>

#include "sigma1/backend/cuda/builder.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda {
namespace {

template <size_t most>
__global__ void interpret(const __grid_constant__ Code<most> code) {
  int64_t size = code.out.view.count;
  Four values[most] = {};
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
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
    write(code.out, first, values[code.count - 1]);
  }
}

// Most launches are of one op, whose value needs no array.
__global__ void interpret_one(const __grid_constant__ Code<1> code) {
  int64_t size = code.out.view.count;
  const Instruction& op = code.instructions[0];
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
    Four x = read(op.x.input, first, size), y{};
    if (op.y.instruction == Operand::kLoaded) y = read(op.y.input, first, size);
    write(code.out, first, apply(op.opcode, x, y, op.parameters, first));
  }
}

void launch_code(const LongCode& code) {
  int blocks = blocks_for_fours(code.out.view.count);
  if (code.count == 1) {
    interpret_one<<<blocks, kThreads, 0, stream()>>>({{code.instructions[0]}, 1, code.out});
  } else {
    interpret<<<blocks, kThreads, 0, stream()>>>(code);
  }
  check(cudaGetLastError(), "pointwise");
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
    builder.code.out = last == terms ? output_of(launch) : output_of(sums, size);
    launch_code(builder.code);
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
  launch_code(builder.code);
}

void run_pointwise(const OpDef& op, const Launch& launch) {
  if (instructions_for(launch.inputs.size()) > kMostInstructions) {
    return run_long_sum(find(op)->opcode, launch);
  }
  Builder builder;
  builder.append({&op, launch, {}}, {}, launch.step);
  builder.code.out = output_of(launch);
  launch_code(builder.code);
}

int64_t pointwise_workspace(const Launch& launch) {
  bool fits_one = instructions_for(launch.inputs.size()) <= kMostInstructions;
  return fits_one ? 0 : launch.out().count() * static_cast<int64_t>(sizeof(float));
}

}  // namespace sigma1::cuda
