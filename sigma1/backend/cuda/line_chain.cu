#include "sigma1/backend/cuda/line_chain.cuh"

#include <algorithm>

#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/line_form.cuh"
#include "sigma1/backend/cuda/line_sums.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda {
namespace {

template <class Line>
LineShape shape_of() {
  return {line_chain_kernel<Line>, Line::Team::kRows, kLineThreads, kTurnBytes<Line::kStride>};
}

// As few warps to a row as its registers allow: the fewer wait for each other.
template <Type kType>
LineShape shape_of_form(const LinePlan& plan) {
  auto with_size = [&]<int kWarps, int kPacks>() {
    LineShape result{};
    with_form(plan.form, [&]<LineForm kForm>() {
      result = shape_of<
          FormLine<kType, LineTeam<kWarps>, kPacks, kForm.before, kForm.norm, kForm.after>>();
    });
    return result;
  };
  int width = plan.code.width;
  if (width <= 768) return with_size.template operator()<1, 3>();
  if (width <= 1024) return with_size.template operator()<1, 4>();
  if (width <= 1536) return with_size.template operator()<2, 3>();
  if (width <= 2048) return with_size.template operator()<2, 4>();
  if (width <= 3072) return with_size.template operator()<4, 3>();
  return with_size.template operator()<4, 4>();
}

template <Type kType>
LineShape shape_for(int width) {
  return with_held_size(width, [&]<int kWarps, int kPacks>() -> LineShape {
    if constexpr (kWarps <= 4) {
      return shape_of<Line<kType, kWarps, kPacks>>();
    } else {
      throw Bug("a line chain's rows are too wide");
    }
  });
}

LineShape shape_for(const LinePlan& plan) {
  if (plan.has_sums) return shape_with_sums(plan);
  if (has_form(plan)) {
    return plan.type == Type::fp16 ? shape_of_form<Type::fp16>(plan)
                                   : shape_of_form<Type::bf16>(plan);
  }
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
  explicit Ready(std::span<const ChainStep> steps, const LinePlan& plan)
      : code(plan.code), shape(shape_for(plan)), turns(plan.turned_results <= 1) {
    std::ranges::copy_if(steps, std::back_inserter(sums),
                         [](const ChainStep& each) { return is_line_sum(*each.op); });
    if (code.turned) prepare_turning();
    if (sums.empty()) {
      code.rows_of_block = code.turned ? kTurnedLines : shape.teams;
      blocks = static_cast<unsigned>((code.rows + code.rows_of_block - 1) / code.rows_of_block);
    } else {
      blocks = cut_for_sums(code, shape);
      auto sums_bytes = sizeof(float) * kLineSums * static_cast<size_t>(code.width);
      shared_bytes = shape.own_bytes + std::max(shared_bytes, sums_bytes);
    }
    if (shared_bytes > 0) allow_most_shared(shape.kernel, "line chain: shared memory");
  }

  void launch() const {
    auto threads = static_cast<unsigned>(shape.threads);
    launch_kernel("line chain", shape.kernel, {blocks, threads, shared_bytes}, code);
    if (!sums.empty()) add_line_sums(code, blocks, sums);
  }

  int64_t workspace() const {
    return sums.empty() ? 0 : int64_t{4} * kLineSums * blocks * code.width;
  }

  LineCode code;
  LineShape shape;
  bool turns;
  std::vector<ChainStep> sums;
  unsigned blocks = 0;
  size_t shared_bytes = 0;

 private:
  void prepare_turning() {
    if (code.rows % 16 != 0 || code.width % 16 != 0) {
      throw Bug("cuda: no [{}, {}] is turned", code.rows, code.width);
    }
    shared_bytes = shape.turn_bytes;
  }
};

LineChain::LineChain(std::span<const ChainStep> steps)
    : ready_(std::make_unique<Ready>(steps, plan_of(steps))) {}

LineChain::~LineChain() = default;

void LineChain::run(uint64_t) { ready_->launch(); }

bool LineChain::turns() const { return ready_->turns; }

int64_t LineChain::workspace() const { return ready_->workspace(); }

void LineChain::set_workspace(std::byte* memory) {
  ready_->code.sums = reinterpret_cast<float*>(memory);
}

}  // namespace sigma1::cuda
