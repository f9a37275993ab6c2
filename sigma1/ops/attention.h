// Attention as one op: its factors follow from the softmax inside, which no factor of a matmul
// sees.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef attention_op, attention_grad_op;

// The same, where forward keeps for its gradient what that would compute again; without relative
// positions. Made by lowering only (passes/keep_attention.cpp).
//
// attention_kept: inputs and attributes of attention, and kKeepsResult. Outputs: y; logs
// [batch, heads, tq], log Σⱼ e^logitᵢⱼ over the keys that query i sees, 0 where it sees none; and,
// with kKeepsResult, the result once more, where y is stored in too few bits to be it.
//
// attention_kept_grad: inputs q, k, v, mask where there is one, dy, result, logs; attributes of
// attention_grad, and kResultFactor. Outputs dq, dk, dv. With pᵢⱼ = e^(logitᵢⱼ − logsᵢ), 0 where
// key j is not seen, the gradient of logitᵢⱼ is pᵢⱼ·(dyᵢ·vⱼ − dyᵢ·resultᵢ / kResultFactor).
extern const OpDef attention_kept_op, attention_kept_grad_op;
inline constexpr const char* kKeepsResult = "keeps_result";
inline constexpr const char* kResultFactor = "result_factor";  // that `result` was multiplied by

// Attributes that only its scale rule reads: the share of keys that are not masked, and of queries
// that a gradient reaches.
inline constexpr const char* kFilledKeys = "filled_keys";
inline constexpr const char* kFilledQueries = "filled_queries";

struct AttentionOptions {
  int64_t heads = 1;      // each sees d = width / heads numbers of every vector
  bool causal = false;    // query i sees keys 0…i only; as many queries as keys
  double multiplier = 1;  // inverse temperature
  Value relative = {};    // [tk, heads·d], one row per distance i − j; needs causal
  Value mask = {};        // [batch, tk], 0 leaves a key out; without gradient
};

// Σⱼ softmaxⱼ(multiplier · d^-½ · qᵢ·(kⱼ + relative_{i−j})) · vⱼ for q[batch, tq, heads·d] and
// k, v[batch, tk, heads·d], each head by itself. What is masked takes no part in the softmax; a
// query that sees no key gives zeros.
Value attention(Value q, Value k, Value v, const AttentionOptions& options = {});

}  // namespace sigma1
