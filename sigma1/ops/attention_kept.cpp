// Attention whose forward keeps what its gradient would otherwise compute again; only lowering
// makes it, of attention and its gradient.
#include <cmath>

#include "sigma1/ops/attention.h"
#include "sigma1/ops/attention_rows.h"
#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

void check_kept_inputs(const OpView& v, size_t extra) {
  if (v.attr<bool>("has_relative")) {
    throw Error(
        "relative: expected none, as gradients by position are not found from what is kept");
  }
  check_attention_inputs(v, extra);
}

Shape logs_shape(const OpView& v) {
  AttentionSizes sizes = attention_sizes(v);
  return {sizes.batch, sizes.heads, sizes.tq};
}

std::vector<TensorType> infer_attention_kept(const OpView& v) {
  check_kept_inputs(v, 0);
  std::vector<TensorType> outputs{v.in(0), {logs_shape(v)}};
  if (v.attr<bool>(kKeepsResult)) outputs.push_back(v.in(0));
  return outputs;
}

void evaluate_attention_kept(const EvalView& v) {
  AttentionReference attention(v);
  int64_t next = 0;
  attention.for_each_row([&](const AttentionRow& row) {
    double log_sum = row.log_sum();
    attention.add_result(row, row.probabilities(log_sum), v.out(0));
    v.out(1)[next++] = log_sum;
  });
  if (v.attr<bool>(kKeepsResult)) v.out(2) = v.out(0);
}

std::vector<TensorType> infer_attention_kept_grad(const OpView& v) {
  check_kept_inputs(v, 3);
  size_t dy = AttentionSettings(v.attributes).dy();
  expect_shape(v, dy, v.in(0).shape);
  expect_shape(v, dy + 1, v.in(0).shape);
  expect_shape(v, dy + 2, logs_shape(v));
  auto factor = v.attr<double>(kResultFactor);
  if (factor == 0 || !std::isfinite(factor)) {
    throw Error("{}: expected a number that is not 0, got {}", kResultFactor, factor);
  }
  return {v.in(0), v.in(1), v.in(2)};
}

void evaluate_attention_kept_grad(const EvalView& v) {
  AttentionReference attention(v);
  size_t first = attention.settings().dy();
  const Tensor &dy = v.in(first), &result = v.in(first + 1), &logs = v.in(first + 2);
  int64_t next = 0;
  attention.for_each_row([&](const AttentionRow& row) {
    double mean = 0;
    for (int64_t c = row.query; c < row.query + attention.sizes().d; ++c) mean += dy[c] * result[c];
    mean /= v.attr<double>(kResultFactor);
    std::vector<double> p = row.probabilities(logs[next++]);
    attention.add_grads(row, p, attention.probability_grads(row), mean);
  });
}

bool linear_in_dy(const OpView& v, size_t input) {
  return input == AttentionSettings(v.attributes).dy();
}

}  // namespace

constinit const OpDef attention_kept_op{
    .name = "attention_kept",
    .formula = "attention, and log Σ e^logit of each query; its result again where asked for",
    .min_inputs = 3,
    .max_inputs = 4,
    .infer = infer_attention_kept,
    .evaluate = evaluate_attention_kept,
    .role = attention_role,
    .multiplies = attention_multiplies};

constinit const OpDef attention_kept_grad_op{
    .name = "attention_kept_grad",
    .formula = "the gradients of q, k and v, by result and logarithms that were kept",
    .min_inputs = 6,
    .max_inputs = 7,
    .infer = infer_attention_kept_grad,
    .evaluate = evaluate_attention_kept_grad,
    .role = attention_role,
    .linear_in = linear_in_dy,
    .multiplies = attention_multiplies};

}  // namespace sigma1
