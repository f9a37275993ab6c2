#include "sigma1/backend/cuda/cluster_forms.cuh"

#include "sigma1/backend/cuda/row_local.cuh"

namespace sigma1::cuda {

std::vector<StepForm> forms_of(std::span<const ChainStep> steps, int blocks) {
  std::vector<StepForm> forms(steps.size());
  auto form_of_input = [&](const ChainStep& step, size_t i) -> StepForm* {
    int from = step.producer.empty() ? -1 : step.producer[i];
    return from < 0 ? nullptr : &forms[static_cast<size_t>(from)];
  };
  auto want_rows = [&](const ChainStep& step) {
    for (size_t i = 0; i < step.launch.inputs.size(); ++i) {
      StepForm* from = form_of_input(step, i);
      if (from && !from->by_rows) from->to_rows = true;
    }
  };
  for (size_t s = 0; s < steps.size(); ++s) {
    const ChainStep& step = steps[s];
    StepForm& own = forms[s];
    if (is_product(*step.op)) {
      StepForm* x = form_of_input(step, 0);
      bool is_whole = width_of(step.launch.in(0)) % (16 * blocks) == 0;
      own.of_slices = x && !x->by_rows && is_whole;
      own.by_rows = own.of_slices;
      if (own.of_slices) x->to_slice = true;
      if (x && !own.of_slices) (x->by_rows ? x->to_all : x->to_rows) = true;
    } else if (is_reaching(*step.op)) {
      own.by_rows = false;
    } else if (is_norm(*step.op) || is_norm_grad(*step.op)) {
      want_rows(step);
    } else {
      bool any = false, all_columns = true;
      for (size_t i = 0; i < step.launch.inputs.size(); ++i) {
        StepForm* from = form_of_input(step, i);
        any = any || from;
        all_columns = all_columns && (!from || !from->by_rows);
      }
      own.by_rows = !any || !all_columns;
      if (own.by_rows) want_rows(step);
    }
  }
  return forms;
}

}  // namespace sigma1::cuda
