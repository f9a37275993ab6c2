#include <cmath>

#include "sigma1/exchange/onnx_ops.h"

namespace sigma1 {
namespace {

using Axes = std::vector<int64_t>;

// Far below every logit, and still a number: a row of nothing else must not become NaN.
constexpr float kNever = -1e30F;

struct Sizes {
  int64_t batch, tq, tk, heads, d;

  explicit Sizes(const OnnxNode& n)
      : batch(n.shape(0)[0]),
        tq(n.shape(0)[1]),
        tk(n.shape(1)[1]),
        heads(n.attr<int64_t>("heads")),
        d(n.shape(0)[2] / heads) {}
};

// x[batch, time, heads·d] with its heads apart, in the order of axes that is asked for.
std::string heads_apart(const OnnxNode& n, const std::string& x, const Shape& apart, Axes order) {
  return n.model.node("Transpose", {n.model.reshaped(x, apart)}, {{"perm", std::move(order)}});
}

// Of q·rᵀ, whose column is a distance, what stands at (i, i − j) goes to (i, j): distances are
// turned round, and each row shifted by one more than the next, which a column more and another
// shape do. Where j > i there is something of another row; no key is there to be seen.
std::string by_key(const OnnxNode& n, const std::string& by_distance, const Sizes& s) {
  std::string none = n.model.reals({}, {0});
  std::string wider = n.model.node(
      "Concat",
      {n.model.node("Expand", {none, n.model.indices({s.batch, s.heads, s.tq, 1})}), by_distance},
      {{"axis", int64_t{3}}});
  std::string turned = n.model.reshaped(wider, {s.batch, s.heads, s.tk + 1, s.tq});
  std::string rows = n.model.node(
      "Slice", {turned, n.model.indices({1}), n.model.indices({s.tk + 1}), n.model.indices({2})});
  return n.model.reshaped(rows, {s.batch, s.heads, s.tq, s.tk});
}

std::string relative_logits(const OnnxNode& n, const std::string& q, const Sizes& s) {
  std::string rows =
      n.model.node("Slice", {n.in(3), n.model.indices({-1}), n.model.indices({-s.tk - 1}),
                             n.model.indices({0}), n.model.indices({-1})});
  std::string columns = heads_apart(n, rows, {s.tk, s.heads, s.d}, {1, 2, 0});
  return by_key(n, n.model.node("MatMul", {q, columns}), s);
}

// Which keys a query sees; empty: all.
std::string allowed(const OnnxNode& n, const Sizes& s) {
  bool causal = n.attr<bool>("causal"), masked = n.attr<bool>("has_mask");
  std::string seen, before;
  if (masked) {
    std::string mask = n.model.reshaped(n.inputs.back(), {s.batch, 1, 1, s.tk});
    seen = n.model.node("Not", {n.model.node("Equal", {mask, n.model.real(0)})});
  }
  if (causal) {
    std::vector<bool> values;
    for (int64_t i = 0; i < s.tq; ++i) {
      for (int64_t j = 0; j < s.tk; ++j) values.push_back(j <= i);
    }
    before = n.model.truths({1, 1, s.tq, s.tk}, values);
  }
  return masked && causal ? n.model.node("And", {seen, before}) : masked ? seen : before;
}

}  // namespace

std::string onnx_attention(const OnnxNode& n) {
  Sizes s(n);
  std::string q = heads_apart(n, n.in(0), {s.batch, s.tq, s.heads, s.d}, {0, 2, 1, 3});
  std::string k = heads_apart(n, n.in(1), {s.batch, s.tk, s.heads, s.d}, {0, 2, 3, 1});
  std::string v = heads_apart(n, n.in(2), {s.batch, s.tk, s.heads, s.d}, {0, 2, 1, 3});
  std::string logits = n.model.node("MatMul", {q, k});
  if (n.attr<bool>("has_relative"))
    logits = n.model.node("Add", {logits, relative_logits(n, q, s)});
  logits =
      n.model.scaled(logits, n.attr<double>("multiplier") / std::sqrt(static_cast<double>(s.d)));
  std::string seen = allowed(n, s);
  if (!seen.empty()) logits = n.model.node("Where", {seen, logits, n.model.reals({}, {kNever})});
  std::string p = n.model.node("Softmax", {logits}, {{"axis", int64_t{-1}}});
  // A query that sees no key gives zeros.
  if (n.attr<bool>("has_mask")) p = n.model.node("Where", {seen, p, n.model.real(0)});
  std::string mixed = n.model.node("MatMul", {p, v});
  std::string together = n.model.node("Transpose", {mixed}, {{"perm", Axes{0, 2, 1, 3}}});
  return n.model.reshaped(together, n.out_shape());
}

std::string onnx_rotary(const OnnxNode& n) {
  int64_t batch = n.shape(0)[0], time = n.shape(0)[1], heads = n.attr<int64_t>("heads");
  int64_t d = n.shape(0)[2] / heads, half = d / 2;
  double base = n.attr<double>("base"), sign = n.attr<bool>("inverse") ? -1 : 1;
  std::vector<float> cosines, sines;
  for (int64_t t = 0; t < time; ++t) {
    for (int64_t i = 0; i < d; ++i) {
      double power = -2 * static_cast<double>(i % half) / static_cast<double>(d);
      double angle = static_cast<double>(t) * std::pow(base, power);
      cosines.push_back(static_cast<float>(std::cos(angle)));
      sines.push_back(static_cast<float>((i < half ? -sign : sign) * std::sin(angle)));
    }
  }
  std::string x = n.model.reshaped(n.in(0), {batch, time, heads, d});
  OnnxModel::Names halves =
      n.model.node("Split", {x, n.model.indices({half, half})}, {{"axis", int64_t{3}}}, 2);
  std::string other = n.model.node("Concat", {halves[1], halves[0]}, {{"axis", int64_t{3}}});
  std::string along = n.model.node("Mul", {x, n.model.reals({time, 1, d}, cosines)});
  std::string across = n.model.node("Mul", {other, n.model.reals({time, 1, d}, sines)});
  return n.model.reshaped(n.model.node("Add", {along, across}), n.out_shape());
}

}  // namespace sigma1
