#include "sigma1/backend/cuda/line_plan.cuh"

#include <algorithm>
#include <array>

#include "sigma1/backend/cuda/builder.cuh"
#include "sigma1/backend/cuda/line_chain.cuh"
#include "sigma1/backend/cuda/line_sums.cuh"
#include "sigma1/backend/cuda/row_local.cuh"
#include "sigma1/ops/norm.h"

namespace sigma1::cuda {
namespace {

bool is_line(const Buffer& buffer) {
  int64_t width = width_of(buffer);
  return plain_type(buffer) && width > 0 && width % 8 == 0 && width <= kWidestLine &&
         buffer.count() > 0;
}

// 8 bits saturate, as those that products read do.
bool can_store(const Buffer& buffer) {
  if (buffer.codec == nullptr) return true;
  const Cast& cast = buffer.codec->cast();
  bool is_narrow = buffer.codec->bytes() == 1;
  return cast.rounding == Rounding::nearest_even &&
         (!is_narrow || cast.overflow == Overflow::saturate);
}

// What the kernel can have in its slots.
bool is_line_input(const Buffer& buffer) {
  return is_line(buffer) && (buffer.codec == nullptr || buffer.codec->bytes() == 2);
}

bool is_line_vector(const Buffer& buffer, int64_t width) {
  return plain_type(buffer) && buffer.count() == width &&
         (buffer.codec == nullptr || buffer.codec->bytes() == 2);
}

// Those whose code does not crowd out what norms need.
bool is_line_opcode(Opcode opcode) {
  switch (opcode) {
    case Opcode::relu:
    case Opcode::relu_grad:
    case Opcode::multiply:
    case Opcode::scale:
    case Opcode::add:
    case Opcode::combine:
      return true;
    default:
      return false;
  }
}

bool has_rows_of(const Buffer& input, const Buffer& out, bool may_repeat) {
  if (!is_line_input(input) || width_of(input) != width_of(out)) return false;
  return input.count() == out.count() || (may_repeat && out.count() % input.count() == 0);
}

class LinePlanner {
 public:
  explicit LinePlanner(std::span<const ChainStep> steps) : steps_(steps) {
    const Buffer& out = steps.front().launch.out();
    plan_.code.width = static_cast<int>(width_of(out));
    plan_.code.rows = out.count() / width_of(out);
  }

  std::optional<LinePlan> plan() {
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (!follows(s)) return std::nullopt;
      bool fits = find(*steps_[s].op) ? append_pointwise(s) : append_norm(s);
      if (!fits) return std::nullopt;
    }
    LineCode& code = plan_.code;
    code.steps[code.step_count - 1].is_last = true;
    find_form(plan_);
    fill_slots();
    return plan_;
  }

 private:
  static int producer(const ChainStep& step, size_t i) {
    return step.producer.empty() ? -1 : step.producer[i];
  }
  bool is_current(size_t s, size_t i) const {
    return s > 0 && producer(steps_[s], i) + 1 == static_cast<int>(s);
  }

  bool follows(size_t s) const {
    const ChainStep& step = steps_[s];
    const Buffer& out = step.launch.out();
    if (width_of(out) != plan_.code.width) return false;
    if (out.count() != plan_.code.rows * plan_.code.width) return false;
    bool reads_last = s == 0;
    for (size_t i = 0; i < step.launch.inputs.size(); ++i) {
      if (producer(step, i) < 0) continue;
      bool by_row = is_row_input(*step.op, i, step.launch.inputs.size());
      if (!by_row || !is_current(s, i)) return false;
      reads_last = true;
    }
    return reads_last;
  }

  // Which input of the code this is; kLineNone when there is no room for it.
  int operand(size_t s, size_t i) {
    if (is_current(s, i)) return kLineCurrent;
    LineCode& code = plan_.code;
    const Buffer& buffer = steps_[s].launch.in(i);
    if (code.input_count == 0) plan_.type = *plain_type(buffer);
    if (code.input_count == kMostLineInputs || plain_type(buffer) != plan_.type) return kLineNone;
    code.inputs[code.input_count] = {buffer.data, buffer.count() / code.width};
    return code.input_count++;
  }

  bool takes(const View& vector) const {
    return vector.type == plan_.type || vector.type == Type::fp32;
  }

  LineStep* next_step() {
    LineCode& code = plan_.code;
    return code.step_count < kMostLineSteps ? &code.steps[code.step_count++] : nullptr;
  }

  void end(size_t s, LineStep& step) {
    const Buffer& out = steps_[s].launch.out();
    View view = view_of(out);
    step.ends = true;
    step.out = {view.data, view.type, view.saturates, out.turned != nullptr};
    if (!out.turned) return;
    plan_.code.turned = reinterpret_cast<uint8_t*>(out.turned);
    ++plan_.turned_results;
  }

  bool append_norm(size_t s) {
    const OpDef& op = *steps_[s].op;
    const Launch& launch = steps_[s].launch;
    bool is_grad = is_norm_grad(op);
    size_t inputs = launch.inputs.size();
    LineStep* step = next_step();
    // The rows of a gradient's norm are gone over several times, as they are in memory.
    if (!step || (is_grad && is_current(s, 0))) return false;
    step->op = is_grad ? LineOp::norm_grad : LineOp::norm;
    step->factor = launch.factor();
    step->eps = static_cast<float>(launch.attr<double>("eps"));
    step->centred = &op == &layer_norm_op || &op == &layer_norm_grad_op;
    if (inputs > (is_grad ? 2 : 1)) step->w = view_of(launch.in(1));
    if (!is_grad && inputs > 2) step->c = view_of(launch.in(2));
    step->x = operand(s, 0);
    if (is_grad) step->y = operand(s, inputs - 1);
    end(s, *step);
    return step->x != kLineNone && (!is_grad || step->y != kLineNone) && takes(step->w) &&
           takes(step->c);
  }

  // Later terms of a sum meet a partial sum: what the step before left is one of the first two.
  bool has_early_current(size_t s) const {
    for (size_t i = 2; i < steps_[s].launch.inputs.size(); ++i) {
      if (is_current(s, i)) return false;
    }
    return true;
  }

  bool append_pointwise(size_t s) {
    constexpr int kFirstInput = 1000;
    ChainStep step = steps_[s];
    if (!has_early_current(s)) return false;
    std::array<int, kMostInstructions + 1> names{};
    step.producer.resize(step.launch.inputs.size());
    for (size_t i = 0; i < step.launch.inputs.size(); ++i) {
      names[i] = kFirstInput + static_cast<int>(i);
      step.producer[i] = static_cast<int>(i);
    }
    Builder builder;
    builder.append(step, names, 0);
    bool fits = true;
    auto place = [&](const Operand& from) {
      if (from.instruction == Operand::kNone) return kLineNone;
      if (from.instruction < kFirstInput) return kLineCurrent;
      int found = operand(s, static_cast<size_t>(from.instruction - kFirstInput));
      fits &= found != kLineNone;
      return found;
    };
    for (int i = 0; i < builder.code.count; ++i) {
      const Instruction& each = builder.code.instructions[i];
      LineStep* next = next_step();
      if (!next) return false;
      next->opcode = each.opcode;
      next->factor = each.parameters.factor;
      next->multiplier = each.parameters.multiplier;
      next->second = each.parameters.second;
      next->x = place(each.x);
      next->y = place(each.y);
      if (i + 1 == builder.code.count) end(s, *next);
    }
    return fits;
  }

  // Each input is read by one step, in the order of steps: a slot that was read gets the next one.
  void fill_slots() {
    LineCode& code = plan_.code;
    std::ranges::fill(code.first_inputs, kLineNone);
    // By slot: the last step that reads it, so far.
    std::array<LineStep*, kLineSlots> readers{};
    int others = 0;
    auto place = [&](LineStep& step, int& from, bool is_first) {
      if (from < 0) return;
      int slot = is_first ? 0 : 1 + others++ % (kLineSlots - 1);
      LineStep*& before = readers[static_cast<size_t>(slot)];
      (before ? before->refills : code.first_inputs)[slot] = from;
      before = &step;
      from = slot;
    };
    for (LineStep& step : std::span(code.steps, static_cast<size_t>(code.step_count))) {
      std::ranges::fill(step.refills, kLineNone);
      place(step, step.x, step.op == LineOp::norm_grad);
      place(step, step.y, false);
    }
  }

  std::span<const ChainStep> steps_;
  LinePlan plan_;
};

}  // namespace

bool is_line_local(const OpDef& op, const Launch& launch) {
  if (launch.outputs.size() != 1 || !is_line(launch.out())) return false;
  if (!can_store(launch.out())) return false;
  const PointwiseOp* pointwise = find(op);
  if (!is_norm(op) && !is_norm_grad(op)) {
    if (!pointwise || !is_line_opcode(pointwise->opcode)) return false;
    if (instructions_for(launch.inputs.size()) > kMostInstructions) return false;
  }
  for (size_t i = 0; i < launch.inputs.size(); ++i) {
    const Buffer& input = launch.in(i);
    bool by_row = is_row_input(op, i, launch.inputs.size());
    bool fits = by_row ? has_rows_of(input, launch.out(), pointwise != nullptr)
                       : is_line_vector(input, width_of(launch.out()));
    if (!fits) return false;
  }
  return true;
}

std::optional<LinePlan> plan_lines(std::span<const ChainStep> steps) {
  auto sums = std::ranges::find_if(steps, [](const ChainStep& s) { return is_line_sum(*s.op); });
  auto count = static_cast<size_t>(sums - steps.begin());
  if (count == 0) return std::nullopt;
  std::optional<LinePlan> plan = LinePlanner(steps.first(count)).plan();
  if (plan && !plan_sums(*plan, steps.first(count), steps.subspan(count))) return std::nullopt;
  return plan;
}

// Interpreted steps keep rows as fp32, so that too few of them are under way: at 768 numbers to a
// row two gradients of norms take 103 us where their own kernels take 86, and wider rows more. So
// only chains of a form are one kernel, but for narrow rows, which are few bytes.
bool fits_lines(std::span<const ChainStep> steps) {
  std::optional<LinePlan> plan = plan_lines(steps);
  if (!plan) return false;
  bool has_norm = std::ranges::any_of(
      plan->code.steps, [](const LineStep& step) { return step.op != LineOp::pointwise; });
  return plan->code.width < kNarrowestForm || !has_norm || steps.size() == 1 || has_form(*plan);
}

}  // namespace sigma1::cuda
