#include "sigma1/models/transformer.h"

#include "sigma1/nn/layers.h"
#include "sigma1/ops/softmax.h"

namespace sigma1 {
namespace {

Value block(Value x, int64_t index, const ModelConfig& config) {
  Graph::Path path(*x.graph, fmt::format("block{}", index));
  x = residual(x, config.residual_weights(2 * index + 1), [&](Value h) {
    Value normal = normalise("norm1", h);
    return self_attention("attention", normal, {.heads = config.heads, .causal = true});
  });
  return residual(x, config.residual_weights(2 * index + 2), [&](Value h) {
    Value normal = normalise("norm2", h);
    return feed_forward("ffn", normal, config.hidden);
  });
}

}  // namespace

void build_transformer(Graph& graph, const ModelConfig& config) {
  Value tokens = graph.input("tokens", {{config.batch, config.time}, Kind::index});
  Value targets = graph.input("targets", {{config.batch, config.time}, Kind::index});
  Value x = embed_tokens("embedding", tokens, config.vocabulary, config.width);
  for (int64_t i = 0; i < config.depth; ++i) x = block(x, i, config);
  x = normalise("norm", x);
  Value logits = dense("head", x, config.vocabulary, false);
  Value loss = softmax_xent(logits, targets);
  graph.mark_output("loss", loss);
}

}  // namespace sigma1
