#include "sigma1/nn/layers.h"

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
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

Value feed_forward(const std::string& name, Value x, int64_t hidden) {
  Graph::Path path(*x.graph, name);
  int64_t width = x.type().dim(-1);
  Value up = dense("up", x, hidden, false);
  Value bent = gelu(up);
  return dense("down", bent, width, false);
}

Value self_attention(const std::string& name, Value x, int64_t heads, bool causal) {
  Graph::Path path(*x.graph, name);
  int64_t batch = x.type().dim(0), time = x.type().dim(1), width = x.type().dim(2);
  if (width % heads != 0)
    throw Error("{}: expected heads to divide {}, got {}", name, width, heads);
  Value qkv = dense("qkv", x, 3 * width, false);
  Value apart = reshape(qkv, {batch, time, 3, heads, width / heads});
  Value by_head = transpose(apart, {2, 0, 3, 1, 4});  // [3, batch, heads, time, d]
  std::vector<Value> parts = split(by_head, 0, 3);
  for (Value& part : parts) part = reshape(part, {batch, heads, time, width / heads});
  Value mixed = attention(parts[0], parts[1], parts[2], {.causal = causal});
  Value by_time = transpose(mixed, {0, 2, 1, 3});
  Value joined = reshape(by_time, {batch, time, width});
  return dense("out", joined, width, false);
}

}  // namespace sigma1
