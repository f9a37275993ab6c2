#include "sigma1/models/gpt.h"

#include "sigma1/base/error.h"
#include "sigma1/nn/layers.h"
#include "sigma1/ops/softmax.h"

namespace sigma1 {
namespace {

Value block(Value x, int64_t index, const ModelConfig& config) {
  Graph::Path path(*x.graph, fmt::format("layer{}", index));
  x = residual(x, config.residual_weights(2 * index + 1), [&](Value h) {
    Value normal = normalise("norm1", h);
    return self_attention("attention", normal,
                          {.heads = config.heads,
                           .causal = true,
                           .with_bias = true,
                           .multiplier = config.attention_multiplier});
  });
  return residual(x, config.residual_weights(2 * index + 2), [&](Value h) {
    Value normal = normalise("norm2", h);
    return feed_forward("ffn", normal, config.hidden, true, config.activation_multiplier);
  });
}

}  // namespace

ModelConfig gpt_defaults() {
  return {.batch = 8,
          .time = 256,
          .width = 128,
          .hidden = 512,
          .depth = 4,
          .heads = 2,
          .vocabulary = 256,
          .residual = "running-mean"};
}

void build_gpt(Graph& graph, const ModelConfig& config) {
  if (config.time < 2) throw Error("time: expected at least 2, got {}", config.time);
  Value tokens = graph.input("tokens", {{config.batch, config.time}, Kind::index});
  Value mask = graph.input("mask", {{config.batch, config.time}}, false);
  Value x = embed_tokens("embedding", tokens, config.vocabulary, config.width);
  for (int64_t i = 0; i < config.depth; ++i) x = block(x, i, config);
  Value normal = normalise("norm", x);
  Value shifted = shift_states("shift", normal);
  Value scores = dense("head", shifted, config.vocabulary, false);
  Value loss = softmax_xent(scores, tokens, mask, LossReduction::mean);
  graph.mark_output("scores", scores);
  graph.mark_output("loss", loss);
}

}  // namespace sigma1
