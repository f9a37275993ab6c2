#include "sigma1/backend/cuda/chain.cuh"

#include <algorithm>
#include <array>

#include "sigma1/backend/cpu/layout.h"
#include "sigma1/backend/cuda/chain_kernels.cuh"
#include "sigma1/backend/cuda/known_chain.cuh"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/line_chain.cuh"
#include "sigma1/backend/cuda/partial_sums.cuh"
#include "sigma1/base/error.h"
#include "sigma1/ops/reduce.h"

namespace sigma1::cuda {
namespace {

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
int64_t launch_code(const Code<most>& code, const Buffer& out, float* sums) {
  constexpr int64_t kSmallestWide = 1 << 22, kLargestWide = int64_t{1} << 40;
  int64_t size = code.out.view.count;
  bool can_pack = packs(code);
  if (sums && !can_pack) throw Bug("sums of a chain whose tensors are not whole packs");
  if (can_pack && (out.turned || sums)) {
    SquareTarget to(out, sums);
    auto kernel =
        sums ? interpret_squares<linear, most, true> : interpret_squares<linear, most, false>;
    launch_kernel("pointwise", kernel, {turn_blocks(to.rows, to.width), kThreads}, code, to);
    return SquareSums::parts(to.rows);
  }
  if (can_pack && size >= kSmallestWide && size <= kLargestWide) {
    constexpr int64_t kOfBlock = 4 * kWideStride;
    auto blocks = static_cast<unsigned>((size + kOfBlock - 1) / kOfBlock);
    launch_kernel("pointwise", interpret_wide<linear, most>, {blocks, kThreads}, code);
  } else {
    launch_kernel("pointwise", interpret<linear, most>, {blocks_for_fours(size), kThreads}, code);
  }
  if (out.turned) turn(out);
  return 0;
}

// `sums`: where sums of the result's columns go, before it is rounded. Gives how many parts of each
// are there, SquareSums::parts at most.
int64_t launch_code(const LongCode& code, const Buffer& out, float* sums = nullptr) {
  if (!is_linear(code)) return launch_code<false>(code, out, sums);
  LongCode shorter = without_scales(code);
  if (shorter.count > 1) return launch_code<true>(shorter, out, sums);
  if (auto parts = run_known(shorter.instructions[0], code.out, out, sums)) return *parts;
  return launch_code<true>(Code<1>{{shorter.instructions[0]}, 1, code.out}, out, sums);
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

bool sums_columns(const Launch& sum, const Buffer& of) {
  const Buffer& summed = sum.in(0);
  const auto& axes = sum.attr<std::vector<int64_t>>("axes");
  return axes.size() + 1 == summed.shape.size() &&
         !cpu::is_one_of(axes.size(), axes, summed.shape) &&
         summed.shape.back() == of.shape.back() && summed.count() == of.count();
}

// A result is known up to factors by which it goes on; it is summed up before these, in fp32.
bool takes_sum(std::span<const ChainStep> steps, const ChainStep& sum) {
  if (sum.op != &sum_op || !std::ranges::all_of(steps, [](auto& s) { return find(*s.op); })) {
    return false;
  }
  const Buffer& out = steps.back().launch.out();
  if (!sums_columns(sum.launch, out)) return false;
  int64_t width = out.shape.back(), rows = out.count() / width;
  bool in_squares = has_many_rows(rows) && rows % 16 == 0 && width % 16 == 0;
  bool to_nearest = !out.codec || out.codec->cast().rounding == Rounding::nearest_even;
  int from = sum.producer.front();
  auto only_scales = [&](const ChainStep& step) {
    return find(*step.op)->opcode == Opcode::scale && step.launch.inputs.size() == 1;
  };
  return in_squares && to_nearest && fits(steps) &&
         std::ranges::all_of(steps.subspan(static_cast<size_t>(from + 1)), only_scales);
}

PointwiseChain::PointwiseChain(std::vector<ChainStep> steps) : steps_(std::move(steps)) {
  if (steps_.size() > 1 && steps_.back().op == &sum_op) {
    sum_.emplace(std::move(steps_.back()));
    steps_.pop_back();
  }
  if (steps_.empty() || !fits(steps_)) throw Bug("a chain of {} steps does not fit", steps_.size());
}

int64_t PointwiseChain::workspace() const {
  if (!sum_) return 0;
  SquareTarget squares(steps_.back().launch.out());
  return SquareSums::parts(squares.rows) * squares.width * static_cast<int64_t>(sizeof(float));
}

void PointwiseChain::run(uint64_t step) {
  std::array<int, kMostInstructions> results{};
  Builder builder;
  float beyond_sum = 1;
  for (size_t s = 0; s < steps_.size(); ++s) {
    builder.append(steps_[s], results, step);
    results[s] = builder.code.count - 1;
    bool is_beyond = sum_ && static_cast<int>(s) > sum_->producer.front();
    if (is_beyond) beyond_sum *= builder.code.instructions[results[s]].parameters.factor;
  }
  const Buffer& out = steps_.back().launch.out();
  builder.code.out = output_of(steps_.back().launch);
  int64_t parts = launch_code(builder.code, out, sum_ ? partials_ : nullptr);
  if (!sum_) return;
  int64_t width = out.shape.back();
  float factor = sum_->launch.factor() / beyond_sum;
  PartialSums sums{partials_, parts, width, width, output_of(sum_->launch), factor};
  add_parts({&sums, 1});
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
