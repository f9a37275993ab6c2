// A decoder of pre-norm blocks: GPT-2's (Radford et al., 2019), with learned positions, layer norm,
// gelu and biases, or Llama's (Touvron et al., 2023), with rotary positions, root mean square norm,
// gated silu and none. Inputs tokens and mask and the shift by one are char_lm's, so that all
// language models train alike.
#pragma once

#include "sigma1/models/registry.h"

namespace sigma1 {

ModelConfig gpt_defaults();
void build_gpt(Graph& graph, const ModelConfig& config);

}  // namespace sigma1
