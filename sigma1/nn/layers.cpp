#include "sigma1/nn/layers.h"

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/positions.h"
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

Value readout_layer(const std::string& name, Value x, int64_t width, double multiplier) {
  Graph::Path path(*x.graph, name);
  int64_t m = x.type().dim(-1);
  Value weight = x.graph->parameter("weight", {m, width}, glorot(m, width));
  return readout(x, weight, multiplier);
}

Value normalise(const std::string& name, Value x, bool trained) {
  Graph& graph = *x.graph;
  Graph::Path path(graph, name);
  if (!trained) return layer_norm(x);
  int64_t width = x.type().dim(-1);
  Value gain = graph.parameter("gain", {width}, {"constant", 0, 1});
  Value bias = graph.parameter("bias", {width}, {"constant", 0, 0});
  return layer_norm(x, gain, bias);
}

Value normalise_rms(const std::string& name, Value x, bool trained) {
  Graph& graph = *x.graph;
  Graph::Path path(graph, name);
  if (!trained) return rms_norm(x);
  Value gain = graph.parameter("gain", {x.type().dim(-1)}, {"constant", 0, 1});
  return rms_norm(x, gain);
}

Value feed_forward(const std::string& name, Value x, int64_t hidden, bool with_bias,
                   double multiplier) {
  Graph::Path path(*x.graph, name);
  int64_t width = x.type().dim(-1);
  Value up = dense("up", x, hidden, with_bias);
  Value bent = gelu(up, multiplier);
  return dense("down", bent, width, with_bias);
}

Value gated_feed_forward(const std::string& name, Value x, int64_t hidden, double multiplier) {
  Graph::Path path(*x.graph, name);
  Value gate = dense("gate", x, hidden, false);
  Value open = silu(gate, multiplier);
  Value up = dense("up", x, hidden, false);
  Value gated = mul(up, open);
  return dense("down", gated, x.type().dim(-1), false);
}

namespace {

struct Projections {
  Value q, k, v;
};

// One product where all three are as wide; else keys and values have one of their own.
Projections project(Value x, int64_t kv_width, bool with_bias) {
  int64_t width = x.type().dim(2);
  if (kv_width == width) {
    Value qkv = dense("qkv", x, 3 * width, with_bias);
    std::vector<Value> parts = split(qkv, 2, 3);
    return {parts[0], parts[1], parts[2]};
  }
  Value q = dense("q", x, width, with_bias);
  Value kv = dense("kv", x, 2 * kv_width, with_bias);
  std::vector<Value> parts = split(kv, 2, 2);
  return {q, parts[0], parts[1]};
}

// Each head of x[batch, time, heads·d] `times` times, one copy beside the other.
Value repeat_heads(Value x, int64_t heads, int64_t times) {
  if (times == 1) return x;
  int64_t batch = x.type().dim(0), time = x.type().dim(1), width = x.type().dim(2);
  Value apart = reshape(x, {batch, time, heads, width / heads});
  Value copies = broadcast(apart, {batch, time, heads, times, width / heads}, {3});
  return reshape(copies, {batch, time, times * width});
}

}  // namespace

Value self_attention(const std::string& name, Value x, const SelfAttention& options) {
  Graph::Path path(*x.graph, name);
  int64_t width = x.type().dim(2), heads = options.heads;
  int64_t kv_heads = options.kv_heads == 0 ? heads : options.kv_heads;
  if (heads < 1 || width % heads != 0) {
    throw Error("heads: expected a divisor of the width {}, got {}", width, heads);
  }
  if (kv_heads < 0 || heads % kv_heads != 0) {
    throw Error("kv-heads: expected 0 or a divisor of the {} heads, got {}", heads, kv_heads);
  }
  auto [q, k, v] = project(x, width / heads * kv_heads, options.with_bias);
  if (options.rotary) {
    q = rotary(q, {.heads = heads});
    k = rotary(k, {.heads = kv_heads});
  }
  k = repeat_heads(k, kv_heads, heads / kv_heads);
  v = repeat_heads(v, kv_heads, heads / kv_heads);
  Value mixed = attention(q, k, v,
                          {.heads = heads,
                           .causal = options.causal,
                           .multiplier = options.multiplier,
                           .mask = options.mask});
  return dense("out", mixed, width, options.with_bias);
}

Value embed_tokens(const std::string& name, Value tokens, int64_t vocabulary, int64_t width,
                   bool with_positions) {
  Graph& graph = *tokens.graph;
  Graph::Path path(graph, name);
  Init init{"normal", 0.02};
  Value table = graph.parameter("token", {vocabulary, width}, init);
  if (!with_positions) return embedding(table, tokens);
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
