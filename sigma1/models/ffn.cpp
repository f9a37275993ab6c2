#include "sigma1/models/ffn.h"

#include "sigma1/nn/layers.h"

namespace sigma1 {

void build_ffn(Graph& graph, const ModelConfig& config) {
  Value x = graph.input("x", {{config.batch * config.time, config.width}});
  Value y = residual(x, config.residual_weights(1), [&](Value h) {
    Value normal = normalise("norm", h);
    return feed_forward("ffn", normal, config.hidden);
  });
  graph.mark_output("y", y);
}

}  // namespace sigma1
