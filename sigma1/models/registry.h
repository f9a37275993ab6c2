// Models by name, for the command line and tests. A model is a function that writes plain ops; it
// does not know whether it will be unit-scaled.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "sigma1/graph/graph.h"
#include "sigma1/nn/residual.h"

namespace sigma1 {

struct ModelConfig {
  int64_t batch = 8, time = 32;
  int64_t width = 64, hidden = 256;
  int64_t depth = 2, heads = 2;
  int64_t vocabulary = 256;
  std::string residual = "fixed";  // default, fixed (τ), running-mean
  double tau = 0.5;
  std::string context = "attention";  // of char_lm: attention, conv, rnn
  std::string norm = "pre";           // of char_lm: pre, post, none
  // What the network computes, whatever scale its tensors are stored at: factors of attention's
  // logits and of gelu's input.
  double attention_multiplier = 1, activation_multiplier = 1;

  // Of the l-th residual layer, from 1. Throws Error for an unknown kind.
  ResidualWeights residual_weights(int64_t l) const;
};

struct Model {
  std::string_view name;
  std::string_view description;
  void (*build)(Graph&, const ModelConfig&);
  ModelConfig (*defaults)();
};

std::span<const Model> model_registry();

// Throws Error with the nearest name when there is none.
const Model& find_model(std::string_view name);
// Throws Error also when a size is not positive.
void build_model(Graph& graph, std::string_view name, const ModelConfig& config);

}  // namespace sigma1
