#include "sigma1/models/gpt.h"

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/nn/layers.h"
#include "sigma1/ops/softmax.h"

namespace sigma1 {
namespace {

bool is_llama(const ModelConfig& config) {
  if (config.block != "gpt2" && config.block != "llama") {
    throw Error("block: expected gpt2 or llama, got '{}'", config.block);
  }
  return config.block == "llama";
}

// u-µP has no parameters in norms: at rates that suit matrices they would leap.
Value norm(const std::string& name, Value x, const ModelConfig& config) {
  bool trained = !config.is_u_mup();
  return is_llama(config) ? normalise_rms(name, x, trained) : normalise(name, x, trained);
}

// attention() divides logits by √d; in training keys come to point along queries, and then d is
// what keeps them the same at any width.
double logit_multiplier(const ModelConfig& config) {
  double d = static_cast<double>(config.width) / static_cast<double>(config.heads);
  return config.attention_multiplier * (config.is_u_mup() ? 1 / std::sqrt(d) : 1);
}

Value head(Value x, const ModelConfig& config) {
  return config.is_u_mup() ? readout_layer("head", x, config.vocabulary, config.loss_multiplier)
                           : dense("head", x, config.vocabulary, false);
}

Value block(Value x, int64_t index, const ModelConfig& config) {
  Graph::Path path(*x.graph, fmt::format("layer{}", index));
  bool llama = is_llama(config);
  x = residual(x, config.residual_weights(2 * index + 1), [&](Value h) {
    Value normal = norm("norm1", h, config);
    return self_attention("attention", normal,
                          {.heads = config.heads,
                           .kv_heads = config.kv_heads,
                           .rotary = llama,
                           .causal = true,
                           .with_bias = !llama,
                           .multiplier = logit_multiplier(config)});
  });
  return residual(x, config.residual_weights(2 * index + 2), [&](Value h) {
    Value normal = norm("norm2", h, config);
    return llama ? gated_feed_forward("ffn", normal, config.hidden, config.activation_multiplier)
                 : feed_forward("ffn", normal, config.hidden, true, config.activation_multiplier);
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

void build_gpt(Graph& graph, const ModelConfig& given) {
  ModelConfig config = given.resolved();
  if (config.time < 2) throw Error("time: expected at least 2, got {}", config.time);
  Value tokens = graph.input("tokens", {{config.batch, config.time}, Kind::index});
  Value mask = graph.input("mask", {{config.batch, config.time}}, false);
  Value x = embed_tokens("embedding", tokens, config.vocabulary, config.width, !is_llama(config));
  for (int64_t i = 0; i < config.depth; ++i) x = block(x, i, config);
  Value normal = norm("norm", x, config);
  Value shifted = shift_states("shift", normal);
  Value scores = head(shifted, config);
  Value loss = softmax_xent(scores, tokens, mask, LossReduction::mean);
  graph.mark_output("scores", scores);
  graph.mark_output("loss", loss);
}

}  // namespace sigma1
