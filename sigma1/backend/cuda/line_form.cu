// Finds the form of a line chain.
#include <algorithm>
#include <vector>

#include "sigma1/backend/cuda/line_plan.cuh"

namespace sigma1::cuda {
namespace {

// Reads a form off steps whose inputs are not in slots yet.
struct FormFinder {
  const LinePlan& plan;
  std::vector<LineInput> inputs = {};
  bool casts = false;

  LineForm find(std::span<const LineStep> steps) {
    if (plan.type == Type::fp32) return {};
    LineForm form;
    size_t s = 0;
    for (; s < steps.size() && is_sum(steps[s]); ++s, ++form.before) {
      if (s == 0) add(steps[s].x);
      add(steps[s].x == kLineCurrent || s == 0 ? steps[s].y : steps[s].x);
    }
    if (s == steps.size() || steps[s].op == LineOp::pointwise || !has_vectors(steps[s])) return {};
    const LineStep& norm = steps[s++];
    bool is_grad = norm.op == LineOp::norm_grad;
    if (form.before == 0) add(is_grad ? norm.y : norm.x);
    if (is_grad) add(norm.x);
    for (; s < steps.size() && is_sum(steps[s]); ++s, ++form.after) {
      add(steps[s].x == kLineCurrent ? steps[s].y : steps[s].x);
    }
    casts = s + 1 == steps.size() && is_cast(steps[s]);
    if (s + (casts ? 1 : 0) != steps.size() || !has_types(steps)) return {};
    if (inputs.size() > kMostFormInputs) return {};
    form.norm = norm.op;
    return form;
  }

 private:
  void add(int input) { inputs.push_back(plan.code.inputs[input]); }

  // Of two inputs, of which what the step before left is one at most.
  static bool is_sum(const LineStep& step) {
    bool adds = step.opcode == Opcode::add || step.opcode == Opcode::combine;
    return step.op == LineOp::pointwise && adds && step.y != kLineNone && step.x != step.y;
  }
  static bool is_cast(const LineStep& step) {
    return step.op == LineOp::pointwise && step.opcode == Opcode::scale && step.x == kLineCurrent;
  }
  bool has_vectors(const LineStep& norm) const {
    auto fits = [&](const View& each) { return each.count == 0 || each.type == plan.type; };
    return fits(norm.w) && fits(norm.c);
  }
  bool has_types(std::span<const LineStep> steps) const {
    return std::ranges::all_of(steps, [&](const LineStep& step) {
      bool is_narrow = step.out.type == Type::e4m3 || step.out.type == Type::e5m2;
      return !step.ends || step.out.type == plan.type || (step.is_last && is_narrow);
    });
  }
};

}  // namespace

void find_form(LinePlan& plan) {
  LineCode& code = plan.code;
  FormFinder finder{plan};
  LineForm form = finder.find({code.steps, static_cast<size_t>(code.step_count)});
  if (form.norm == LineOp::pointwise) return;
  plan.form = form;
  code.casts = finder.casts;
  code.share = 1 / static_cast<float>(code.width);
  std::ranges::copy(finder.inputs, code.form_inputs);
  for (LineStep& step : code.steps) {
    step.of_current = step.factor;
    step.of_other = step.opcode == Opcode::add ? step.factor : step.second;
    if (step.y == kLineCurrent) std::swap(step.of_current, step.of_other);
  }
}

bool has_form(const LinePlan& plan) {
  return plan.code.width >= kNarrowestForm &&
         std::ranges::find(kLineForms, plan.form) != std::end(kLineForms);
}

}  // namespace sigma1::cuda
