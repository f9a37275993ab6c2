#include "sigma1/ops/catalogue.h"

#include "sigma1/base/text.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/cast.h"
#include "sigma1/ops/collective.h"
#include "sigma1/ops/conv.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/positions.h"
#include "sigma1/ops/recurrent.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/ops/update.h"

namespace sigma1 {
namespace {

constexpr const OpDef* kCatalogue[] = {
    // Sources
    &input_op, &parameter_op, &constant_op, &sinusoids_op,
    // Linear
    &matmul_op, &linear_op, &conv1d_op, &embedding_op, &gather_rows_op,
    // Sums
    &add_op, &weighted_add_op, &sum_op, &mean_op, &broadcast_op,
    // Elementwise
    &mul_op, &scale_op, &identity_op, &dropout_op, &relu_op, &gelu_op, &gelu_tanh_op, &tanh_op,
    &sigmoid_op, &silu_op, &softplus_op, &exp_op, &log_op,
    // Normalisation, attention, recurrence, losses
    &softmax_op, &layer_norm_op, &rms_norm_op, &attention_op, &recurrent_highway_op,
    &softmax_xent_op, &mse_op,
    // Shape and place
    &reshape_op, &transpose_op, &slice_op, &unslice_op, &concat_op, &split_op, &rotary_op,
    // What only gradients and lowering emit
    &conv1d_grad_input_op, &conv1d_grad_weight_op, &embedding_grad_op, &gather_rows_grad_op,
    &relu_grad_op, &gelu_grad_op, &gelu_tanh_grad_op, &tanh_grad_op, &sigmoid_grad_op,
    &silu_grad_op, &softplus_grad_op, &exp_grad_op, &log_grad_op, &softmax_grad_op,
    &softmax_xent_grad_op, &layer_norm_grad_op, &layer_norm_weight_grad_op, &rms_norm_grad_op,
    &rms_norm_weight_grad_op, &attention_grad_op, &recurrent_highway_grad_op,
    // What only lowering emits
    &softmax_xent_with_grad_op, &attention_kept_op, &attention_kept_grad_op, &scaled_cast_op,
    // Between ranks
    &all_reduce_op, &reduce_scatter_op, &all_gather_op,
    // Optimiser steps
    &sgd_step_op, &adam_step_op, &lamb_step_op};

}  // namespace

std::span<const OpDef* const> op_catalogue() { return kCatalogue; }

const OpDef& find_op(std::string_view name) {
  std::vector<std::string> names;
  for (const OpDef* op : kCatalogue) {
    if (op->name == name) return *op;
    names.emplace_back(op->name);
  }
  std::string nearest = nearest_name(name, names);
  throw Error("unknown op '{}'{}; `sigma1 ops` lists all", name,
              nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

}  // namespace sigma1
