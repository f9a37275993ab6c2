// A GPT-style decoder (Radford et al., 2019): learned positions, pre-norm blocks, gelu. Inputs
// tokens and mask and the shift by one are char_lm's, so that all language models train alike.
#pragma once

#include "sigma1/models/registry.h"

namespace sigma1 {

ModelConfig gpt_defaults();
void build_gpt(Graph& graph, const ModelConfig& config);

}  // namespace sigma1
