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
// dense without bias, for a model's last layer under u-µP.
Value readout_layer(const std::string& name, Value x, int64_t width, double multiplier);
// Layer normalisation with gain 1 and bias 0 to start with, unless it is to be without.
Value normalise(const std::string& name, Value x, bool trained = true);
// By the root mean square, with gain 1 to start with (Zhang and Sennrich, 2019).
Value normalise_rms(const std::string& name, Value x, bool trained = true);
// W₂·gelu(m·W₁·x): hidden wide, back to x's width.
Value feed_forward(const std::string& name, Value x, int64_t hidden, bool with_bias = false,
                   double multiplier = 1);

// W₂·(silu(m·W_g·x) ∘ W₁·x), without biases (Shazeer, 2020).
Value gated_feed_forward(const std::string& name, Value x, int64_t hidden, double multiplier = 1);

struct SelfAttention {
  int64_t heads = 1;
  int64_t kv_heads = 0;  // of keys and values, each shared by a group of heads; 0: as many as heads
  bool rotary = false;   // queries and keys are turned by their positions
  bool causal = false, with_bias = false;
  double multiplier = 1;  // of the logits: the inverse of a temperature
  Value mask = {};        // [batch, time], 0 where nobody is to look
};
// Multi-head self-attention on x[batch, time, width].
Value self_attention(const std::string& name, Value x, const SelfAttention& options);

// [batch, time, width] of tokens [batch, time]: a trained vector for each token plus, where asked
// for, one for each position, N(0, 0.02²) as GPT-2 has them.
Value embed_tokens(const std::string& name, Value tokens, int64_t vocabulary, int64_t width,
                   bool with_positions = true);

// What position t of states[batch, time, width] knows goes to t + 1, so that it predicts the next
// token; a trained vector stands at the first position.
Value shift_states(const std::string& name, Value states);

}  // namespace sigma1
