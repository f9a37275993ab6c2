#include "sigma1/models/mlp.h"

#include "sigma1/nn/layers.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/softmax.h"

namespace sigma1 {

void build_mlp(Graph& graph, const ModelConfig& config) {
  Value x = graph.input("x", {{config.batch, config.width}});
  for (int64_t i = 0; i < config.depth; ++i) {
    Graph::Path path(graph, fmt::format("layer{}", i));
    Value y = dense("dense", x, config.hidden);
    x = relu(y);
  }
  Value y = dense("head", x, config.width);
  Value target = graph.input("target", {{config.batch, config.width}}, false);
  Value loss = mse(y, target);
  graph.mark_output("loss", loss);
}

}  // namespace sigma1
