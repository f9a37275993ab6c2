#include "sigma1/analysis/factor_conditions.h"

#include <algorithm>

#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/conv.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"

namespace sigma1 {
namespace {

bool is_one_of(const OpDef* op, std::initializer_list<const OpDef*> ops) {
  return std::ranges::find(ops, op) != ops.end();
}

bool bends(const OpDef* op) {
  return is_one_of(op, {&gelu_op, &gelu_tanh_op, &tanh_op, &sigmoid_op, &silu_op, &softplus_op,
                        &exp_op, &log_op, &softmax_op, &softmax_xent_op});
}

std::vector<InputGroup> one_by_one(size_t first, size_t end) {
  std::vector<InputGroup> groups;
  for (size_t k = first; k < end; ++k) groups.push_back({k});
  return groups;
}

InputGroup linear_inputs(const Node& node) {
  if (node.op->linear_in == nullptr)
    throw Error("{}: nothing is known of how {} passes factors on", node.name, node.op->name);
  std::vector<TensorType> types = node.input_types();
  InputGroup inputs;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    if (node.op->linear_in({types, node.attributes}, k)) inputs.push_back(k);
  }
  return inputs;
}

FactorConditions attention_conditions(const Node& node) {
  FactorConditions conditions{{{2}}, {{0, 1}}};
  if (node.attributes.get<bool>("has_relative")) conditions.fixed.push_back({0, 3});
  return conditions;
}

}  // namespace

bool is_norm(const Node& node) { return is_one_of(node.op, {&layer_norm_op, &rms_norm_op}); }

bool is_sum(const Node& node) { return is_one_of(node.op, {&add_op, &weighted_add_op}); }

std::vector<double> sum_weights(const Node& sum) {
  return sum.attributes.get_or("weights", std::vector<double>(sum.inputs.size(), 1.0));
}

FactorConditions factor_conditions(const Node& node) {
  size_t inputs = node.inputs.size();
  if (node.op == &parameter_op || node.outputs.front().kind == Kind::index) return {};
  if (inputs == 0) return {{{}}, {}};
  if (is_sum(node) || node.op == &concat_op) return {one_by_one(0, inputs), {}};
  // What a norm reads may be of any scale; without a gain, what it gives is of one.
  if (is_norm(node)) return {inputs == 1 ? std::vector<InputGroup>{{}} : one_by_one(1, inputs), {}};
  if (is_one_of(node.op, {&linear_op, &conv1d_op}))
    return {inputs == 3 ? std::vector<InputGroup>{{0, 1}, {2}} : std::vector<InputGroup>{{0, 1}},
            {}};
  if (node.op == &attention_op) return attention_conditions(node);
  if (node.op == &relu_op) return {{{0}}, {}};
  if (bends(node.op)) return {{{}}, {{0}}};
  return {{linear_inputs(node)}, {}};
}

}  // namespace sigma1
