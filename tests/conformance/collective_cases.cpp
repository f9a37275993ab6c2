// One rank has nobody to add: what comes is what goes.
#include "sigma1/ops/collective.h"

#include "tests/conformance/case.h"

namespace sigma1 {

std::vector<ConformanceCase> collective_cases() {
  std::vector<ConformanceCase> cases;
  std::vector<TensorType> inputs{{{3, 5}}, {{7}}, {{2, 2, 2}}}, large{{{300, 130}}, {{70}}, {{31}}};
  Attributes attributes{{"world", int64_t{1}},
                        {"format", std::string("fp32")},
                        {"owners", std::vector<int64_t>{0, 0, 0}}};
  for (const OpDef* op : {&all_reduce_op, &reduce_scatter_op, &all_gather_op}) {
    cases.push_back({"alone", op, inputs, attributes,
                     [](const std::vector<Tensor>& in) { return in; }, large, attributes});
  }
  return cases;
}

}  // namespace sigma1
