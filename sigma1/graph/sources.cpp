#include "sigma1/graph/sources.h"

#include <algorithm>

namespace sigma1 {
namespace {

std::vector<TensorType> infer_from_attributes(const OpView& v) {
  return {{v.attr<std::vector<int64_t>>("shape"),
           v.attributes.get_or("index", false) ? Kind::index : Kind::real}};
}

void evaluate_constant(const EvalView& v) {
  std::ranges::fill(v.out().data, v.attr<double>("value"));
}

}  // namespace

const OpDef input_op{.name = "input",
                     .formula = "a tensor given from outside",
                     .min_inputs = 0,
                     .max_inputs = 0,
                     .infer = infer_from_attributes};

const OpDef parameter_op{.name = "parameter",
                         .formula = "a tensor that training changes",
                         .min_inputs = 0,
                         .max_inputs = 0,
                         .infer = infer_from_attributes};

const OpDef constant_op{.name = "constant",
                        .formula = "one value everywhere",
                        .min_inputs = 0,
                        .max_inputs = 0,
                        .infer = infer_from_attributes,
                        .evaluate = evaluate_constant};

bool is_source(const OpDef& op) {
  return &op == &input_op || &op == &parameter_op || &op == &constant_op;
}

}  // namespace sigma1
