#include "sigma1/backend/cuda/line_chain.cuh"

#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/line_kernel.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda {
namespace {

using LineKernel = void (*)(LineCode);

struct LineShape {
  LineKernel kernel;
  int teams;  // of a block
};

template <Type kType>
LineShape shape_for(int width) {
  return with_held_size(width, [&]<int kWarps, int kPacks>() -> LineShape {
    if constexpr (kWarps <= 4) {
      return {line_chain_kernel<kType, kWarps, kPacks>, LineTeam<kWarps>::kRows};
    } else {
      throw Bug("a line chain's rows are too wide");
    }
  });
}

LineShape shape_for(const LinePlan& plan) {
  if (plan.type == Type::fp16) return shape_for<Type::fp16>(plan.code.width);
  if (plan.type == Type::bf16) return shape_for<Type::bf16>(plan.code.width);
  return shape_for<Type::fp32>(plan.code.width);
}

void expect_aligned(const void* data) {
  if (reinterpret_cast<uintptr_t>(data) % 16 == 0) return;
  throw Bug("a line chain's tensor does not begin on 16 bytes");
}

LinePlan plan_of(std::span<const ChainStep> steps) {
  std::optional<LinePlan> plan = plan_lines(steps);
  if (!plan) throw Bug("a line chain of {} steps does not fit", steps.size());
  for (const LineInput& each : plan->code.inputs) expect_aligned(each.data);
  for (const LineStep& each : plan->code.steps) {
    for (const void* data : {each.w.data, each.c.data, each.out.data}) expect_aligned(data);
  }
  // Several are left to Device::turn.
  if (plan->turned_results == 1) return *plan;
  plan->code.turned = nullptr;
  for (LineStep& each : plan->code.steps) each.out.turns = false;
  return *plan;
}

}  // namespace

struct LineChain::Ready {
  explicit Ready(const LinePlan& plan)
      : code(plan.code), shape(shape_for(plan)), turns(plan.turned_results <= 1) {
    code.rows_of_block = code.turned ? kTurnedLines : shape.teams;
    blocks = static_cast<unsigned>((code.rows + code.rows_of_block - 1) / code.rows_of_block);
    if (code.turned == nullptr) return;
    if (code.rows % 16 != 0 || code.width % 16 != 0) {
      throw Bug("cuda: no [{}, {}] is turned", code.rows, code.width);
    }
    code.turned_stride = code.width / 4 + 1;
    shared_bytes = size_t{4} * kTurnedLines * static_cast<size_t>(code.turned_stride);
    allow_most_shared(shape.kernel, "line chain: shared memory");
  }

  void launch() const {
    launch_kernel("line chain", shape.kernel, {blocks, kLineThreads, shared_bytes}, code);
  }

  LineCode code;
  LineShape shape;
  bool turns;
  unsigned blocks = 0;
  size_t shared_bytes = 0;
};

LineChain::LineChain(std::span<const ChainStep> steps)
    : ready_(std::make_unique<Ready>(plan_of(steps))) {}

LineChain::~LineChain() = default;

void LineChain::run(uint64_t) { ready_->launch(); }

bool LineChain::turns() const { return ready_->turns; }

}  // namespace sigma1::cuda
