#include "sigma1/models/bert.h"

#include "sigma1/base/error.h"
#include "sigma1/nn/layers.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"

namespace sigma1 {
namespace {

constexpr double kStart = 0.02;  // the standard deviation of every matrix
constexpr int64_t kSegments = 2;

// nn's normalise() but for the epsilon and the name that published checkpoints have.
Value norm(const std::string& name, Value x) {
  constexpr double kEpsilon = 1e-12;
  Graph& graph = *x.graph;
  Graph::Path path(graph, name);
  int64_t width = x.type().dim(-1);
  Value weight = graph.parameter("weight", {width}, {"constant", 0, 1});
  Value bias = graph.parameter("bias", {width}, {"constant", 0, 0});
  return layer_norm(x, weight, bias, kEpsilon);
}

struct Encoded {
  Value states;       // [batch, time, width]
  Value token_table;  // [vocabulary, width]
};

Encoded embed(Graph& graph, const ModelConfig& config) {
  Shape shape{config.batch, config.time};
  Value tokens = graph.input("tokens", {shape, Kind::index});
  Value segments = graph.input("segments", {shape, Kind::index});
  Graph::Path path(graph, "embedding");
  Value token_table =
      graph.parameter("token", {config.vocabulary, config.width}, {"normal", kStart});
  Value position_table =
      graph.parameter("position", {config.positions, config.width}, {"normal", kStart});
  Value segment_table = graph.parameter("segment", {kSegments, config.width}, {"normal", kStart});
  Value of_tokens = embedding(token_table, tokens);
  Value of_positions = slice(position_table, 0, 0, config.time);
  Value of_segments = embedding(segment_table, segments);
  Value sum = weighted_add({of_tokens, of_positions, of_segments}, {1, 1, 1});
  return {norm("norm", sum), token_table};
}

Value layer(Value x, Value padding, int64_t index, const ModelConfig& config) {
  Graph::Path path(*x.graph, fmt::format("layer{}", index));
  Value attended = residual(x, config.residual_weights(2 * index + 1), [&](Value h) {
    return self_attention("attention", h,
                          {.heads = config.heads,
                           .with_bias = true,
                           .multiplier = config.attention_multiplier,
                           .mask = padding});
  });
  x = norm("attention_norm", attended);
  Value transformed = residual(x, config.residual_weights(2 * index + 2), [&](Value h) {
    return feed_forward("ffn", h, config.hidden, true, config.activation_multiplier);
  });
  return norm("ffn_norm", transformed);
}

Encoded encode(Graph& graph, const ModelConfig& config) {
  if (config.time > config.positions) {
    throw Error("time: expected at most the {} positions of the table, got {}", config.positions,
                config.time);
  }
  Value padding = graph.input("padding", {{config.batch, config.time}}, false);
  Encoded encoded = embed(graph, config);
  for (int64_t i = 0; i < config.depth; ++i) {
    encoded.states = layer(encoded.states, padding, i, config);
  }
  return encoded;
}

Value masked_scores(const Encoded& encoded, Value positions, const ModelConfig& config) {
  Graph& graph = *positions.graph;
  Graph::Path path(graph, "mlm");
  Value picked = gather_rows(encoded.states, positions);
  Value up = dense("dense", picked, config.width);
  Value bent = gelu(up, config.activation_multiplier);
  Value normal = norm("norm", bent);
  Value bias = graph.parameter("bias", {config.vocabulary}, {"constant", 0, 0});
  Graph::Path scores(graph, "scores");
  return linear(normal, transpose(encoded.token_table, {1, 0}), bias);
}

Value next_sentence_scores(Value states, const ModelConfig& config) {
  Value first = slice(states, 1, 0, 1);
  Value vectors = reshape(first, {config.batch, config.width});
  Value pooled = tanh(dense("pooler", vectors, config.width));
  return dense("nsp", pooled, 2);
}

// Devlin et al. start every matrix alike, whatever its size.
void set_initialisation(Graph& graph) {
  for (Value parameter : graph.parameters()) {
    Attributes& attributes = graph.node(parameter.node).attributes;
    if (attributes.get<std::string>("distribution") == "constant") continue;
    attributes.set("distribution", std::string("normal"));
    attributes.set("std_dev", kStart);
  }
}

}  // namespace

ModelConfig bert_defaults() {
  return {.batch = 8,
          .time = 128,
          .width = 128,
          .hidden = 512,
          .depth = 2,
          .heads = 2,
          .vocabulary = 30528,
          .residual = "default"};
}

void build_bert(Graph& graph, const ModelConfig& given) {
  ModelConfig config = given.resolved();
  Shape masked{config.batch, config.predictions};
  Value positions = graph.input("masked_positions", {masked, Kind::index});
  Value labels = graph.input("masked_labels", {masked, Kind::index});
  Value weights = graph.input("masked_weights", {masked}, false);
  Value next_sentence = graph.input("next_sentence", {{config.batch}, Kind::index});
  Encoded encoded = encode(graph, config);
  Value mlm_scores = masked_scores(encoded, positions, config);
  Value mlm_loss = softmax_xent(mlm_scores, labels, weights, LossReduction::mean);
  Value nsp_scores = next_sentence_scores(encoded.states, config);
  Value nsp_loss = softmax_xent(nsp_scores, next_sentence, {}, LossReduction::mean);
  Value loss = add({mlm_loss, nsp_loss});
  set_initialisation(graph);
  graph.mark_output("mlm_scores", mlm_scores);
  graph.mark_output("nsp_scores", nsp_scores);
  graph.mark_output("mlm_loss", mlm_loss);
  graph.mark_output("nsp_loss", nsp_loss);
  graph.mark_output("loss", loss);
}

void build_bert_squad(Graph& graph, const ModelConfig& given) {
  ModelConfig config = given.resolved();
  Value start = graph.input("start", {{config.batch}, Kind::index});
  Value end = graph.input("end", {{config.batch}, Kind::index});
  Encoded encoded = encode(graph, config);
  Value both = dense("squad", encoded.states, 2);
  std::vector<Value> scores = split(both, 2, 2);
  for (Value& each : scores) each = reshape(each, {config.batch, config.time});
  Value start_loss = softmax_xent(scores[0], start, {}, LossReduction::mean);
  Value end_loss = softmax_xent(scores[1], end, {}, LossReduction::mean);
  Value loss = weighted_add({start_loss, end_loss}, {0.5, 0.5});
  set_initialisation(graph);
  graph.mark_output("start_scores", scores[0]);
  graph.mark_output("end_scores", scores[1]);
  graph.mark_output("loss", loss);
}

}  // namespace sigma1
