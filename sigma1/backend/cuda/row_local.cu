#include "sigma1/backend/cuda/row_local.cuh"

#include <algorithm>

#include "sigma1/backend/cuda/builder.cuh"
#include "sigma1/backend/cuda/row_chain.cuh"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/conv.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"

namespace sigma1::cuda {

int64_t width_of(const Buffer& buffer) { return buffer.shape.empty() ? 0 : buffer.shape.back(); }

bool is_product(const OpDef& op) { return &op == &linear_op || &op == &matmul_op; }

bool is_norm(const OpDef& op) { return &op == &layer_norm_op || &op == &rms_norm_op; }

bool is_norm_grad(const OpDef& op) {
  return &op == &layer_norm_grad_op || &op == &rms_norm_grad_op;
}

bool is_reaching(const OpDef& op) {
  return &op == &attention_op || &op == &conv1d_op || &op == &conv1d_grad_input_op;
}

std::optional<Type> plain_type(const Buffer& buffer) {
  if (buffer.kind != Kind::real || buffer.scale != nullptr) return std::nullopt;
  return buffer.codec == nullptr ? Type::fp32 : find_type(buffer.codec->cast().format);
}

bool is_row_input(const OpDef& op, size_t i, size_t inputs) {
  if (&op == &attention_op) return i < 3;
  if (is_product(op) || is_norm(op) || is_reaching(op)) return i == 0;
  return !is_norm_grad(op) || i == 0 || i + 1 == inputs;
}

Type common_type(std::span<const ChainStep> steps) {
  Type type = *plain_type(steps.front().launch.out());
  bool same = type == Type::fp16 || type == Type::bf16;
  for (const ChainStep& each : steps) {
    same &= plain_type(each.launch.out()) == type;
    for (size_t i = 0; i < each.launch.inputs.size(); ++i) {
      bool by_row = is_row_input(*each.op, i, each.launch.inputs.size());
      same &= !by_row || plain_type(each.launch.in(i)) == type;
    }
  }
  return same ? type : Type::fp32;
}

bool joins(std::span<const ChainStep> steps, size_t s) {
  const ChainStep& step = steps[s];
  if (s == 0 || find(*step.op) == nullptr || step.producer.empty()) return false;
  auto third = step.producer.begin() + std::min<ptrdiff_t>(2, std::ssize(step.producer));
  int before = static_cast<int>(s) - 1;
  // Later terms of a sum meet a partial sum instead.
  return std::find(step.producer.begin(), third, before) != third &&
         std::find(third, step.producer.end(), before) == step.producer.end();
}

namespace {

constexpr int64_t kGranule = 16, kMostWidth = 1024, kMostWeights = 1 << 20;

bool has_granules(int64_t width) {
  return width > 0 && width % kGranule == 0 && width <= kMostWidth;
}

bool is_row_tensor(const Buffer& buffer) {
  std::optional<Type> type = plain_type(buffer);
  return type && *type != Type::fp32 && has_granules(width_of(buffer)) && buffer.count() > 0;
}

bool is_vector(const Buffer& buffer, int64_t width) {
  return plain_type(buffer) && buffer.count() == width;
}

bool is_row_product(const OpDef& op, const Launch& launch) {
  bool is_linear = &op == &linear_op;
  const Buffer &x = launch.in(0), &w = launch.in(1), &y = launch.out();
  if (!is_linear && launch.attr<bool>("transpose_left")) return false;
  if (w.shape.size() != 2 || w.count() > kMostWeights) return false;
  std::optional<Type> type = plain_type(w);
  bool bfloat = plain_type(x) == Type::bf16;
  if (type != (bfloat ? Type::bf16 : Type::fp16)) return false;
  if (w.count() != width_of(x) * width_of(y)) return false;
  return !is_linear || is_vector(launch.in(2), width_of(y));
}

// Of the format of the rows: what lies in memory goes to tensor cores as it is.
bool is_row_reaching(const OpDef& op, const Launch& launch) {
  std::optional<Type> type = plain_type(launch.in(0));
  auto has_type = [&](size_t i) { return plain_type(launch.in(i)) == type; };
  if (plain_type(launch.out()) != type) return false;
  if (&op != &attention_op) {
    bool has_bias = launch.inputs.size() > 2;
    return has_type(1) && (!has_bias || is_vector(launch.in(2), width_of(launch.out())));
  }
  if (launch.attr<bool>("has_mask")) return false;
  for (size_t i = 1; i < launch.inputs.size(); ++i) {
    if (!has_type(i)) return false;
  }
  return true;
}

bool are_like_output(const Launch& launch) {
  return std::ranges::all_of(launch.inputs, [&](const Buffer& each) {
    return each.count() == launch.out().count() && width_of(each) == width_of(launch.out());
  });
}

}  // namespace

bool is_row_local(const OpDef& op, const Launch& launch) {
  if (launch.outputs.size() != 1 || !is_row_tensor(launch.out())) return false;
  if (launch.out().codec->cast().rounding != Rounding::nearest_even) return false;
  for (size_t i = 0; i < launch.inputs.size(); ++i) {
    bool by_row = is_row_input(op, i, launch.inputs.size());
    if (by_row && !is_row_tensor(launch.in(i))) return false;
  }
  if (is_product(op)) return is_row_product(op, launch);
  if (is_reaching(op)) return is_row_reaching(op, launch);
  if (is_norm(op) || is_norm_grad(op)) {
    for (size_t i = 0; i < launch.inputs.size(); ++i) {
      if (is_row_input(op, i, launch.inputs.size())) continue;
      if (!is_vector(launch.in(i), width_of(launch.out()))) return false;
    }
    return true;
  }
  const PointwiseOp* pointwise = find(op);
  return pointwise != nullptr && pointwise->opcode != Opcode::dropout && are_like_output(launch) &&
         instructions_for(launch.inputs.size()) <= kMostInstructions;
}

}  // namespace sigma1::cuda
