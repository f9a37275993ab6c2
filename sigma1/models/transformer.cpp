#include "sigma1/models/transformer.h"

#include "sigma1/nn/layers.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/softmax.h"

namespace sigma1 {
namespace {

// [batch, time, width]
Value embed(Graph& graph, Value tokens, const ModelConfig& config) {
  Graph::Path path(graph, "embedding");
  Init init{"normal", 0.02};
  Value table = graph.parameter("token", {config.vocabulary, config.width}, init);
  Value positions = graph.parameter("position", {config.time, config.width}, init);
  Value looked_up = embedding(table, tokens);
  return weighted_add({looked_up, positions}, {1, 1});
}

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
  Value x = embed(graph, tokens, config);
  for (int64_t i = 0; i < config.depth; ++i) x = block(x, i, config);
  x = normalise("norm", x);
  Value logits = dense("head", x, config.vocabulary, false);
  Value loss = softmax_xent(logits, targets);
  graph.mark_output("loss", loss);
}

}  // namespace sigma1
