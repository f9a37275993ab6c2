// The paper's character language models (Section 5.1 and its Appendix): a stack of context layers
// (attention, convolution or recurrence) and feed-forward layers, regular and unit-scaled from
// here.
#pragma once

#include "sigma1/models/registry.h"

namespace sigma1 {

// The paper's table of hyperparameters.
ModelConfig char_lm_defaults();

void build_char_lm(Graph& graph, const ModelConfig& config);

}  // namespace sigma1
