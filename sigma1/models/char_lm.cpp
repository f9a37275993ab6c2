#include "sigma1/models/char_lm.h"

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/nn/layers.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/conv.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/positions.h"
#include "sigma1/ops/recurrent.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"

namespace sigma1 {
namespace {

constexpr int64_t kPositionBases = 128, kKernel = 7, kGroupSize = 16;
constexpr double kLongestPeriod = 1024;

Init fan_in(int64_t inputs) { return {"uniform", 1 / std::sqrt(static_cast<double>(inputs))}; }

// One vector per distance: [time, width].
Value relative_positions(Graph& graph, int64_t time, int64_t width) {
  Value bases = sinusoids(graph, time, kPositionBases, kLongestPeriod);
  Value weight = graph.parameter("positions", {kPositionBases, width}, fan_in(kPositionBases));
  return matmul(bases, weight);
}

Value attention_layer(Value x, const ModelConfig& config) {
  Graph& graph = *x.graph;
  Graph::Path path(graph, "attention");
  int64_t width = config.width;
  Value query_weight = graph.parameter("query/weight", {width, width}, fan_in(width));
  Value query_bias = graph.parameter("query/bias", {width}, {"constant", 0, 0});
  Value key_weight = graph.parameter("key/weight", {width, width}, fan_in(width));
  Value value_weight = graph.parameter("value/weight", {width, width}, fan_in(width));
  Value q = linear(x, query_weight, query_bias);
  Value k = matmul(x, key_weight);
  Value v = matmul(x, value_weight);
  Value relative = relative_positions(graph, config.time, width);
  AttentionOptions options{.heads = config.heads,
                           .causal = true,
                           .multiplier = config.attention_multiplier,
                           .relative = relative};
  Value mixed = attention(q, k, v, options);
  return dense("out", mixed, width);
}

Value convolution_layer(Value x, const ModelConfig& config) {
  Graph& graph = *x.graph;
  Graph::Path path(graph, "convolution");
  if (config.width % kGroupSize != 0) {
    throw Error("width: expected a multiple of the group size {}, got {}", kGroupSize,
                config.width);
  }
  Init init = glorot(kKernel * kGroupSize, kKernel * kGroupSize);
  Value weight = graph.parameter("weight", {kKernel, kGroupSize, config.width}, init);
  Value bias = graph.parameter("bias", {config.width}, {"constant", 0, 0});
  Value y = conv1d(x, weight, bias, {.groups = config.width / kGroupSize, .causal = true});
  return relu(y);
}

Value recurrent_layer(Value x, const ModelConfig& config) {
  Graph& graph = *x.graph;
  Graph::Path path(graph, "recurrence");
  int64_t width = config.width;
  Value weight = graph.parameter("weight", {2 * width, 2, width}, fan_in(2 * width));
  Value bias = graph.parameter("bias", {2, width}, {"constant", 0, 0});
  Value initial = graph.parameter("initial", {width}, {"constant", 0, 0});
  return recurrent_highway(x, weight, bias, initial);
}

Value context_layer(Value x, const ModelConfig& config) {
  if (config.context == "attention") return attention_layer(x, config);
  if (config.context == "conv") return convolution_layer(x, config);
  if (config.context == "rnn") return recurrent_layer(x, config);
  throw Error("context: expected attention, conv or rnn, got '{}'", config.context);
}

Value relu_feed_forward(Value x, const ModelConfig& config) {
  Graph::Path path(*x.graph, "ffn");
  Value up = dense("up", x, config.hidden);
  Value bent = relu(up);
  return dense("down", bent, config.width);
}

using Layer = Value (*)(Value, const ModelConfig&);

// The norm before the branch, after the join, or nowhere.
Value residual_layer(Value x, int64_t l, const ModelConfig& config, Layer layer) {
  bool pre = config.norm == "pre", post = config.norm == "post";
  if (!pre && !post && config.norm != "none") {
    throw Error("norm: expected pre, post or none, got '{}'", config.norm);
  }
  Value joined = residual(x, config.residual_weights(l), [&](Value h) {
    if (pre) h = normalise("norm", h);
    return layer(h, config);
  });
  return post ? normalise("norm", joined) : joined;
}

}  // namespace

ModelConfig char_lm_defaults() {
  return {.batch = 8,
          .time = 256,
          .width = 128,
          .hidden = 512,
          .depth = 8,
          .heads = 2,
          .vocabulary = 5008,
          .residual = "running-mean"};
}

void build_char_lm(Graph& graph, const ModelConfig& config) {
  if (config.time < 2) throw Error("time: expected at least 2, got {}", config.time);
  Value tokens = graph.input("tokens", {{config.batch, config.time}, Kind::index});
  Value mask = graph.input("mask", {{config.batch, config.time}}, false);
  Value table =
      graph.parameter("embedding/table", {config.vocabulary, config.width}, {"uniform", 1});
  Value x = embedding(table, tokens);
  for (int64_t i = 0; i < config.depth; ++i) {
    Graph::Path path(graph, fmt::format("layer{}", i));
    x = residual_layer(x, 2 * i + 1, config, context_layer);
    x = residual_layer(x, 2 * i + 2, config, relu_feed_forward);
  }
  Value normal = normalise("norm", x);
  Value shifted = shift_states("shift", normal);
  Value scores = dense("head", shifted, config.vocabulary);
  Value loss = softmax_xent(scores, tokens, mask, LossReduction::mean);
  graph.mark_output("scores", scores);
  graph.mark_output("loss", loss);
}

}  // namespace sigma1
