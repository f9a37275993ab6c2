// A layer's three products of a training step, with factors of 8 bits, as a graph.
#pragma once

#include <cmath>

#include "sigma1/graph/graph.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/passes/precision.h"

namespace sigma1 {

struct LayerSizes {
  int64_t rows, in, out;
};

struct LayerGraph {
  LayerSizes sizes;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();

  Value source(const char* name, Shape shape) {
    return stored(graph->input(name, {std::move(shape)}), storage_cast("fp16"));
  }
  Value stored(Value value, const Cast& cast) {
    graph->node(value.node).storage = {cast};
    return value;
  }
  Value cast(Value value, const char* format) {
    return stored(identity(value), product_cast(format));
  }
  void add_products(Value x, Value w, Value dy, const char* result_format) {
    auto product = [&](const char* name, Value a, Value b, Transpose transpose, int64_t terms) {
      Value result = stored(matmul(a, b, transpose), storage_cast(result_format));
      graph->node(result.node).alpha = 1 / std::sqrt(static_cast<double>(terms));
      graph->mark_output(name, result);
    };
    product("y", x, w, {}, sizes.in);
    product("dx", dy, w, {false, true}, sizes.out);
    product("dw", x, dy, {true, false}, sizes.rows);
  }
};

// By itself: each factor is cast once, as lower_precision has it.
inline std::shared_ptr<Graph> layer_graph(const LayerSizes& sizes,
                                          const char* result_format = "fp16") {
  LayerGraph layer{sizes};
  Value x = layer.source("x", {sizes.rows, sizes.in});
  Value w = layer.source("w", {sizes.in, sizes.out});
  Value dy = layer.source("dy", {sizes.rows, sizes.out});
  layer.add_products(layer.cast(x, "e4m3"), layer.cast(w, "e4m3"), layer.cast(dy, "e5m2"),
                     result_format);
  return layer.graph;
}

}  // namespace sigma1
