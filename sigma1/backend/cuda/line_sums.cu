#include "sigma1/backend/cuda/line_sums.cuh"

#include <algorithm>

#include "sigma1/backend/cpu/layout.h"
#include "sigma1/backend/cuda/line_sums_kernel.cuh"
#include "sigma1/backend/cuda/partial_sums.cuh"
#include "sigma1/backend/cuda/row_local.cuh"
#include "sigma1/base/error.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/reduce.h"

namespace sigma1::cuda {
namespace {

bool is_weight_grad(const OpDef& op) {
  return &op == &layer_norm_weight_grad_op || &op == &rms_norm_weight_grad_op;
}

int producer(const ChainStep& step, size_t i) {
  return step.producer.empty() ? -1 : step.producer[i];
}

struct SumPlanner {
  LinePlan& plan;
  std::span<const ChainStep> steps;

  bool is_like_rows(const Buffer& buffer) const {
    const LineCode& code = plan.code;
    return width_of(buffer) == code.width && buffer.count() == code.rows * code.width;
  }

  bool reads_same(const ChainStep& sum, size_t i, const ChainStep& norm, size_t of_norm) const {
    const Buffer &mine = sum.launch.in(i), &other = norm.launch.in(of_norm);
    int from = producer(sum, i);
    return is_like_rows(mine) && from == producer(norm, of_norm) &&
           (from >= 0 || mine.data == other.data);
  }

  bool takes_weight_grad(const ChainStep& sum) const {
    auto norm =
        std::ranges::find_if(steps, [](const ChainStep& each) { return is_norm_grad(*each.op); });
    if (norm == steps.end()) return false;
    bool centred = sum.op == &layer_norm_weight_grad_op;
    return centred == (norm->op == &layer_norm_grad_op) &&
           sum.launch.attr<double>("eps") == norm->launch.attr<double>("eps") &&
           reads_same(sum, 0, *norm, 0) &&
           reads_same(sum, 1, *norm, norm->launch.inputs.size() - 1);
  }

  // Of results of 16 bits.
  bool takes_column_sum(const ChainStep& sum) {
    const Buffer& x = sum.launch.in(0);
    int from = producer(sum, 0);
    if (from < 0 || !is_like_rows(x) || plain_type(x) != plan.type) return false;
    cpu::SummedAxes axes(x.shape, sum.launch.attr<std::vector<int64_t>>("axes"));
    if (axes.columns != plan.code.width || axes.groups.count() != 1) return false;
    int ended = 0;
    for (LineStep& each : plan.code.steps) {
      if (each.ends && ended++ == from) each.is_summed = true;
    }
    return true;
  }
};

// Few packs to a thread, since each has three sums. But a warp alone with a row waits for no other,
// and where three packs do, its lanes are all busy.
template <Type kType>
LineShape shape_of(const LinePlan& plan) {
  auto with_size = [&]<int kWarps, int kPacks>() {
    LineShape result{};
    with_form(plan.form, [&]<LineForm kForm>() {
      if constexpr (kForm.norm == LineOp::norm_grad) {
        using Line = SummedLine<kType, LineTeam<kWarps>, kPacks, kForm.before, kForm.after>;
        result = {line_sums_kernel<Line>,    Line::Team::kRows, kLineThreads,
                  kTurnBytes<Line::kStride>, Line::kBlocks,     sizeof(typename Line::Room)};
      }
    });
    return result;
  };
  int width = plan.code.width;
  if (width <= 768) return with_size.template operator()<1, 3>();
  if (width <= 1024) return with_size.template operator()<2, 2>();
  if (width <= 2048) return with_size.template operator()<4, 2>();
  return with_size.template operator()<8, 2>();
}

}  // namespace

bool is_line_sum(const OpDef& op) { return &op == &sum_op || is_weight_grad(op); }

bool plan_sums(LinePlan& plan, std::span<const ChainStep> steps, std::span<const ChainStep> sums) {
  if (sums.empty()) return true;
  constexpr int64_t kMostRows = 1 << 30;
  if (plan.form.norm != LineOp::norm_grad || !has_form(plan)) return false;
  if (plan.code.rows > kMostRows) return false;
  auto repeats = [&](const LineInput& each) { return each.rows != plan.code.rows; };
  std::span inputs(plan.code.inputs, static_cast<size_t>(plan.code.input_count));
  if (std::ranges::any_of(inputs, repeats)) return false;
  plan.has_sums = true;
  SumPlanner planner{plan, steps};
  int weight_grads = 0, column_sums = 0;
  for (const ChainStep& each : sums) {
    bool is_column_sum = each.op == &sum_op;
    if (!is_column_sum && !is_weight_grad(*each.op)) return false;
    if (++(is_column_sum ? column_sums : weight_grads) > 1) return false;
    if (!(is_column_sum ? planner.takes_column_sum(each) : planner.takes_weight_grad(each))) {
      return false;
    }
  }
  return true;
}

LineShape shape_with_sums(const LinePlan& plan) {
  return plan.type == Type::fp16 ? shape_of<Type::fp16>(plan) : shape_of<Type::bf16>(plan);
}

unsigned cut_for_sums(LineCode& code, const LineShape& shape) {
  constexpr int64_t kMultiprocessors = 132;
  int64_t step = code.turned ? kTurnedLines : shape.teams;
  int64_t steps = (code.rows + step - 1) / step;
  int64_t blocks = std::min(steps, kMultiprocessors * shape.blocks_at_once);
  code.rows_of_block = static_cast<int>(steps / blocks * step);
  code.longer_blocks = static_cast<int>(steps % blocks);
  return static_cast<unsigned>(blocks);
}

void add_line_sums(const LineCode& code, unsigned blocks, std::span<const ChainStep> sums) {
  std::vector<PartialSums> parts;
  for (const ChainStep& each : sums) {
    for (size_t o = 0; o < each.launch.outputs.size(); ++o) {
      int64_t place = each.op == &sum_op ? kColumnSum : static_cast<int64_t>(o);
      parts.push_back({code.sums + place * code.width, blocks, int64_t{kLineSums} * code.width,
                       code.width, output_of(each.launch, o), each.launch.factor(o)});
    }
  }
  add_parts(parts);
}

}  // namespace sigma1::cuda
