// Layers: functions that create their parameters and apply ops. The name is a part of the path of
// every node inside, and the parameters' names, which seed their random numbers, follow from it.
#pragma once

#include <string>

#include "sigma1/graph/graph.h"

namespace sigma1 {

// Weights as regular models start: Glorot and Bengio's variance 2 / (fan_in + fan_out), uniform.
Init glorot(int64_t fan_in, int64_t fan_out);

// x[…, m] · weight[m, width], plus a bias that starts at zero.
Value dense(const std::string& name, Value x, int64_t width, bool with_bias = true);
// Layer normalisation with gain 1 and bias 0 to start with.
Value normalise(const std::string& name, Value x);
// W₂·gelu(m·W₁·x): hidden wide, back to x's width.
Value feed_forward(const std::string& name, Value x, int64_t hidden, bool with_bias = false,
                   double multiplier = 1);

struct SelfAttention {
  int64_t heads = 1;
  bool causal = false, with_bias = false;
  double multiplier = 1;  // of the logits: the inverse of a temperature
};
// Multi-head self-attention on x[batch, time, width].
Value self_attention(const std::string& name, Value x, const SelfAttention& options);

// [batch, time, width] of tokens [batch, time]: a trained vector for each token plus one for each
// position, N(0, 0.02²) as GPT-2 has them.
Value embed_tokens(const std::string& name, Value tokens, int64_t vocabulary, int64_t width);

// What position t of states[batch, time, width] knows goes to t + 1, so that it predicts the next
// token; a trained vector stands at the first position.
Value shift_states(const std::string& name, Value states);

}  // namespace sigma1
