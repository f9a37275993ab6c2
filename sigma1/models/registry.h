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
  int64_t depth = 2, heads = 2;  // of gpt and bert, 0: of 64 numbers each; so for hidden: 4·width
  int64_t vocabulary = 256;
  std::string residual = "fixed";  // default, fixed (τ), running-mean
  double tau = 0.5;
  std::string context = "attention";  // of char_lm: attention, conv, rnn
  std::string norm = "pre";           // of char_lm: pre, post, none
  std::string block = "gpt2";         // of gpt: gpt2, llama
  int64_t kv_heads = 0;               // of gpt: heads of keys and values; 0: as many as heads
  std::string named = {};             // of gpt: 124M, 355M, 774M, 1.5B; of bert: base, large
  int64_t positions = 512;            // of bert: rows of its table, at least `time`
  int64_t predictions = 20;           // of bert: tokens of a sequence that are to be guessed
  // What the network computes, whatever scale its tensors are stored at: factors of attention's
  // logits and of the activation's input.
  double attention_multiplier = 1, activation_multiplier = 1;
  // unit, or u-mup, of gpt: what makes the best rate and multipliers those of any width and depth.
  std::string parametrization = "unit";
  double residual_multiplier = 1, residual_attention_ratio = 1, loss_multiplier = 1;  // of u-mup

  // With heads and hidden as 0 stands for.
  ModelConfig resolved() const;
  bool is_u_mup() const { return parametrization == "u-mup"; }

  // Takes width, depth, heads and hidden, of GPT-2 also time, of the published model that is called
  // so. Throws Error when there is none.
  void set_named(std::string_view size);
  // Of the l-th residual layer, from 1. Throws Error for an unknown kind.
  ResidualWeights residual_weights(int64_t l) const;
};

struct Model {
  std::string_view name;
  std::string_view description;
  void (*build)(Graph&, const ModelConfig&);
  ModelConfig (*defaults)();
  bool has_blocks = false;       // block, kv_heads and u-mup are its own
  std::string_view family = {};  // whose published sizes it can have
};

std::span<const Model> model_registry();

// Throws Error with the nearest name when there is none.
const Model& find_model(std::string_view name);
// Throws Error also when a size is not positive.
void build_model(Graph& graph, std::string_view name, const ModelConfig& config);

}  // namespace sigma1
