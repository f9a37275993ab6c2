#include "sigma1/exchange/onnx_ops.h"

#include <algorithm>
#include <numbers>
#include <numeric>

#include "sigma1/ops/attention.h"
#include "sigma1/ops/conv.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/positions.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"

namespace sigma1 {
namespace {

using Axes = std::vector<int64_t>;
using Names = OnnxModel::Names;

// A rule of an op with one output.
template <std::string (*rule)(const OnnxNode&)>
Names single(const OnnxNode& n) {
  return {rule(n)};
}

std::string swapped(const OnnxNode& n, size_t input) {
  Axes order(n.shape(input).size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return n.model.node("Transpose", {n.in(input)}, {{"perm", order}});
}

std::string write_matmul(const OnnxNode& n) {
  std::string x = n.attr<bool>("transpose_left") ? swapped(n, 0) : n.in(0);
  std::string w = n.attr<bool>("transpose_right") ? swapped(n, 1) : n.in(1);
  return n.model.node("MatMul", {x, w});
}

std::string write_linear(const OnnxNode& n) {
  std::string product = n.model.node("MatMul", {n.in(0), n.in(1)});
  return n.model.node("Add", {product, n.in(2)});
}

std::string write_sum_of(const OnnxNode& n, const std::vector<double>& weights) {
  std::string sum = n.model.scaled(n.in(0), weights[0]);
  for (size_t i = 1; i < weights.size(); ++i)
    sum = n.model.node("Add", {sum, n.model.scaled(n.in(i), weights[i])});
  return sum;
}

std::string write_add(const OnnxNode& n) {
  return write_sum_of(n, std::vector<double>(n.inputs.size(), 1.0));
}

std::string write_weighted_add(const OnnxNode& n) {
  return write_sum_of(n, n.attr<std::vector<double>>("weights"));
}

// The input of an activation: m·x.
std::string multiplied(const OnnxNode& n) {
  return n.model.scaled(n.in(0), n.node.attributes.get_or("multiplier", 1.0));
}

// An activation that ONNX has by name. Literals cannot be template arguments, these can.
constexpr char kRelu[] = "Relu", kTanh[] = "Tanh", kSigmoid[] = "Sigmoid", kSoftplus[] = "Softplus",
               kExp[] = "Exp", kLog[] = "Log";
template <const char* op>
std::string write_activation(const OnnxNode& n) {
  return n.model.node(op, {multiplied(n)});
}

std::string write_gelu(const OnnxNode& n) {
  std::string x = multiplied(n);
  std::string erf = n.model.node("Erf", {n.model.scaled(x, std::numbers::sqrt2 / 2)});
  std::string twice = n.model.node("Add", {erf, n.model.real(1)});
  return n.model.node("Mul", {n.model.scaled(x, 0.5), twice});
}

std::string write_gelu_tanh(const OnnxNode& n) {
  std::string x = multiplied(n);
  std::string cube = n.model.node("Mul", {x, n.model.node("Mul", {x, x})});
  std::string inner = n.model.node("Add", {x, n.model.scaled(cube, 0.044715)});
  double slope = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  std::string bent = n.model.node("Tanh", {n.model.scaled(inner, slope)});
  std::string twice = n.model.node("Add", {bent, n.model.real(1)});
  return n.model.node("Mul", {n.model.scaled(x, 0.5), twice});
}

std::string write_silu(const OnnxNode& n) {
  std::string x = multiplied(n);
  return n.model.node("Mul", {x, n.model.node("Sigmoid", {x})});
}

std::string write_mul(const OnnxNode& n) { return n.model.node("Mul", {n.in(0), n.in(1)}); }
std::string write_identity(const OnnxNode& n) { return n.in(0); }
std::string write_scale(const OnnxNode& n) {
  return n.model.scaled(n.in(0), n.attr<double>("factor"));
}

std::string write_layer_norm(const OnnxNode& n) {
  Names inputs = n.inputs;
  int64_t width = n.shape(0).back();
  if (inputs.size() == 1)
    inputs.push_back(n.model.reals({width}, std::vector<float>(static_cast<size_t>(width), 1)));
  return n.model.node("LayerNormalization", inputs,
                      {{"axis", int64_t{-1}}, {"epsilon", n.attr<double>("eps")}});
}

std::string write_rms_norm(const OnnxNode& n) {
  std::string square = n.model.node("Mul", {n.in(0), n.in(0)});
  std::string mean = n.model.node("ReduceMean", {square}, {{"axes", Axes{-1}}});
  std::string shifted = n.model.node("Add", {mean, n.model.real(n.attr<double>("eps"))});
  std::string y = n.model.node("Div", {n.in(0), n.model.node("Sqrt", {shifted})});
  return n.inputs.size() == 1 ? y : n.model.node("Mul", {y, n.in(1)});
}

std::string write_embedding(const OnnxNode& n) {
  return n.model.node("Gather", {n.in(0), n.in(1)}, {{"axis", int64_t{0}}});
}

std::string write_gather_rows(const OnnxNode& n) {
  std::string rows = n.model.node("Unsqueeze", {n.in(1), n.model.indices({-1})});
  return n.model.node("GatherND", {n.in(0), rows}, {{"batch_dims", int64_t{1}}});
}

// ONNX has time last and the output's channels first.
std::string write_conv1d(const OnnxNode& n) {
  ConvDims d = conv_dims(n.shape(0), n.shape(1), n.node.attributes);
  std::string x = n.model.node("Transpose", {n.in(0)}, {{"perm", Axes{0, 2, 1}}});
  std::string w = n.model.node("Transpose", {n.in(1)}, {{"perm", Axes{2, 1, 0}}});
  Names inputs{x, w};
  if (n.inputs.size() == 3) inputs.push_back(n.in(2));
  std::string y = n.model.node("Conv", inputs,
                               {{"pads", Axes{d.padding, 0}},
                                {"strides", Axes{d.stride}},
                                {"dilations", Axes{d.dilation}},
                                {"group", d.groups}});
  return n.model.node("Transpose", {y}, {{"perm", Axes{0, 2, 1}}});
}

std::string write_reshape(const OnnxNode& n) { return n.model.reshaped(n.in(0), n.out_shape()); }

std::string write_transpose(const OnnxNode& n) {
  Axes order = n.attr<Axes>("order");
  for (int64_t& axis : order) axis += axis < 0 ? static_cast<int64_t>(order.size()) : 0;
  return n.model.node("Transpose", {n.in(0)}, {{"perm", order}});
}

std::string write_slice(const OnnxNode& n) {
  return n.model.node("Slice", {n.in(0), n.model.indices({n.attr<int64_t>("begin")}),
                                n.model.indices({n.attr<int64_t>("end")}),
                                n.model.indices({n.attr<int64_t>("axis")})});
}

std::string write_concat(const OnnxNode& n) {
  return n.model.node("Concat", n.inputs, {{"axis", n.attr<int64_t>("axis")}});
}

Names write_split(const OnnxNode& n) {
  auto axis = n.attr<int64_t>("axis");
  Axes sizes(n.node.outputs.size(), n.node.outputs.front().dim(static_cast<int>(axis)));
  return n.model.node("Split", {n.in(0), n.model.indices(sizes)}, {{"axis", axis}}, sizes.size());
}

std::string write_sum(const OnnxNode& n) {
  return n.model.node("ReduceSum", {n.in(0), n.model.indices(n.attr<Axes>("axes"))},
                      {{"keepdims", int64_t{0}}});
}

std::string write_mean(const OnnxNode& n) {
  return n.model.node("ReduceMean", {n.in(0)},
                      {{"axes", n.attr<Axes>("axes")}, {"keepdims", int64_t{0}}});
}

std::string write_broadcast(const OnnxNode& n) {
  std::string apart = n.model.node("Unsqueeze", {n.in(0), n.model.indices(n.attr<Axes>("axes"))});
  return n.model.node("Expand", {apart, n.model.indices(n.out_shape())});
}

std::string write_softmax(const OnnxNode& n) {
  return n.model.node("Softmax", {multiplied(n)}, {{"axis", int64_t{-1}}});
}

std::string write_reduced_loss(const OnnxNode& n, const std::string& losses, int64_t count) {
  std::string sum = n.model.node("ReduceSum", {losses}, {{"keepdims", int64_t{0}}});
  bool is_mean = n.attr<std::string>("reduction") == "mean";
  return n.model.scaled(sum, is_mean ? 1 / static_cast<double>(count) : 1);
}

std::string write_softmax_xent(const OnnxNode& n) {
  int64_t rows = element_count(n.shape(1));
  std::string logits = n.model.reshaped(n.in(0), {rows, n.shape(0).back()});
  std::string logs = n.model.node("LogSoftmax", {logits}, {{"axis", int64_t{-1}}});
  std::string targets = n.model.reshaped(n.in(1), {rows, 1});
  std::string picked = n.model.node("GatherElements", {logs, targets}, {{"axis", int64_t{1}}});
  std::string losses = n.model.scaled(picked, -1);
  if (n.inputs.size() == 3)
    losses = n.model.node("Mul", {losses, n.model.reshaped(n.in(2), {rows, 1})});
  return write_reduced_loss(n, losses, rows);
}

std::string write_mse(const OnnxNode& n) {
  std::string difference = n.model.node("Sub", {n.in(0), n.in(1)});
  std::string squares = n.model.node("Mul", {difference, difference});
  return write_reduced_loss(n, squares, element_count(n.shape(0)));
}

struct Rule {
  const OpDef* op;
  OnnxRule write;
};

const Rule kRules[] = {
    {&matmul_op, single<write_matmul>},
    {&linear_op, single<write_linear>},
    {&add_op, single<write_add>},
    {&weighted_add_op, single<write_weighted_add>},
    {&relu_op, single<write_activation<kRelu>>},
    {&gelu_op, single<write_gelu>},
    {&gelu_tanh_op, single<write_gelu_tanh>},
    {&tanh_op, single<write_activation<kTanh>>},
    {&sigmoid_op, single<write_activation<kSigmoid>>},
    {&silu_op, single<write_silu>},
    {&softplus_op, single<write_activation<kSoftplus>>},
    {&exp_op, single<write_activation<kExp>>},
    {&log_op, single<write_activation<kLog>>},
    {&mul_op, single<write_mul>},
    {&scale_op, single<write_scale>},
    {&identity_op, single<write_identity>},
    {&layer_norm_op, single<write_layer_norm>},
    {&rms_norm_op, single<write_rms_norm>},
    {&embedding_op, single<write_embedding>},
    {&gather_rows_op, single<write_gather_rows>},
    {&attention_op, single<onnx_attention>},
    {&rotary_op, single<onnx_rotary>},
    {&conv1d_op, single<write_conv1d>},
    {&reshape_op, single<write_reshape>},
    {&transpose_op, single<write_transpose>},
    {&slice_op, single<write_slice>},
    {&concat_op, single<write_concat>},
    {&split_op, write_split},
    {&sum_op, single<write_sum>},
    {&mean_op, single<write_mean>},
    {&broadcast_op, single<write_broadcast>},
    {&softmax_op, single<write_softmax>},
    {&softmax_xent_op, single<write_softmax_xent>},
    {&mse_op, single<write_mse>},
};

}  // namespace

OnnxRule onnx_rule(const OpDef& op) {
  auto found = std::ranges::find(kRules, &op, &Rule::op);
  return found == std::end(kRules) ? nullptr : found->write;
}

}  // namespace sigma1
