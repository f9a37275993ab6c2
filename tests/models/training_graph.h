// The registry's models as small training graphs, for tests of what comes after differentiation.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sigma1/backend/reference.h"
#include "sigma1/models/registry.h"
#include "sigma1/passes/unit_scaling.h"

namespace sigma1 {

struct TrainingCase {
  std::string name, model;
  ModelConfig config;
};

// Every model of the registry but bert_squad, char_lm with each of its contexts and gpt with each
// of its blocks.
std::vector<TrainingCase> training_cases();

// Marks the output "loss" and, as "PARAMETER/gradient", the gradient of every parameter. Plain, or
// unit-scaled first.
void build_training_graph(Graph& graph, const TrainingCase& of,
                          std::optional<Scheme> scheme = std::nullopt, bool seed_input = false);
// Differentiates by the output "loss" and marks the parameters' gradients.
void mark_gradients(Graph& graph, bool seed_input = false);

// Parameters as initialised, constant ones not all alike so that a swapped one shows; inputs
// random, and masks that let most pass.
Bindings training_bindings(const Graph& graph);

// What every op that reads an index allows.
int64_t index_limit(const Graph& graph, const Node& input);

}  // namespace sigma1
