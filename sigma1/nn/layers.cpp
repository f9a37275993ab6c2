#include "sigma1/nn/layers.h"

#include <cmath>

#include "sigma1/ops/attention.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"

namespace sigma1 {

Init glorot(int64_t fan_in, int64_t fan_out) {
  return {"uniform", std::sqrt(2.0 / static_cast<double>(fan_in + fan_out))};
}

Value dense(const std::string& name, Value x, int64_t width, bool with_bias) {
  Graph& graph = *x.graph;
  Graph::Path path(graph, name);
  int64_t m = x.type().dim(-1);
  Value weight = graph.parameter("weight", {m, width}, glorot(m, width));
  if (!with_bias) return matmul(x, weight);
  Value bias = graph.parameter("bias", {width}, {"constant", 0, 0});
  return linear(x, weight, bias);
}

Value normalise(const std::string& name, Value x) {
  Graph& graph = *x.graph;
  Graph::Path path(graph, name);
  int64_t width = x.type().dim(-1);
  Value gain = graph.parameter("gain", {width}, {"constant", 0, 1});
  Value bias = graph.parameter("bias", {width}, {"constant", 0, 0});
  return layer_norm(x, gain, bias);
}

Value feed_forward(const std::string& name, Value x, int64_t hidden, bool with_bias,
                   double multiplier) {
  Graph::Path path(*x.graph, name);
  int64_t width = x.type().dim(-1);
  Value up = dense("up", x, hidden, with_bias);
  Value bent = gelu(up, multiplier);
  return dense("down", bent, width, with_bias);
}

Value self_attention(const std::string& name, Value x, const SelfAttention& options) {
  Graph::Path path(*x.graph, name);
  int64_t width = x.type().dim(2);
  Value qkv = dense("qkv", x, 3 * width, options.with_bias);
  std::vector<Value> parts = split(qkv, 2, 3);
  Value mixed = attention(
      parts[0], parts[1], parts[2],
      {.heads = options.heads, .causal = options.causal, .multiplier = options.multiplier});
  return dense("out", mixed, width, options.with_bias);
}

Value embed_tokens(const std::string& name, Value tokens, int64_t vocabulary, int64_t width) {
  Graph& graph = *tokens.graph;
  Graph::Path path(graph, name);
  Init init{"normal", 0.02};
  Value table = graph.parameter("token", {vocabulary, width}, init);
  Value positions = graph.parameter("position", {tokens.type().dim(1), width}, init);
  Value looked_up = embedding(table, tokens);
  return weighted_add({looked_up, positions}, {1, 1});
}

Value shift_states(const std::string& name, Value states) {
  Graph& graph = *states.graph;
  Graph::Path path(graph, name);
  int64_t batch = states.type().dim(0), time = states.type().dim(1), width = states.type().dim(2);
  Value first = graph.parameter("first", {width}, {"constant", 0, 0});
  Value firsts = broadcast(first, {batch, 1, width}, {0, 1});
  Value earlier = slice(states, 1, 0, time - 1);
  return concat({firsts, earlier}, 1);
}

}  // namespace sigma1
