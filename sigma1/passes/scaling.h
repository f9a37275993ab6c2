// The passes that choose scale factors. All need a plain forward graph (factors 1) and change
// factors and attributes alone, never structure.
#pragma once

#include <string_view>
#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

struct ScalingOptions;

// Every parameter that starts random starts with standard deviation 1; an op that multiplies by its
// parameter inside takes over the factor the initialisation had. Guarantees: the recipe's step 1.
void unit_init(Graph& graph);

// The paper's rewrite of a residual branch γ·f(x) into id*(f(id*(x, 1, γ)), γ, 1). Needs a split
// and a join of nn's residual(); sets and pins their factors, so that the branch sees unit
// gradients.
void residual(Graph& graph);

// α and β that would give each op unit outputs and gradients on its own (Table A.2); 1 where
// losses are added, as a loss is a number to be read, not a tensor to be stored. Wrong
// gradients remain until `constrain` or `exact_betas` has run.
void ideal_scales(Graph& graph, const ScalingOptions& options);

// How the factors of one op are made one.
enum class Mean { geometric, arithmetic, harmonic, to_output };
Mean parse_mean(std::string_view name);
// Of α, first, and the βs it shares a constraint with.
double combine_factors(const std::vector<double>& factors, Mean mean);

// α = β on every edge that is not a cut edge, by a mean over the op's constrained factors (Section
// 4). Losses keep their values, and what enters them on such edges gets one common β instead, a
// mean of theirs: a sum of losses weighs each as the plain model does. Guarantees valid gradients.
// Needs ideal_scales.
void constrain(Graph& graph, Mean mean);

// Keeps every α and chooses every β by potentials: each gradient has unit scale where a value has
// one consumer, and the sum of its consumers' shares has where it has several; around pinned nodes,
// what their factors leave. Guarantees valid gradients unless pinned factors contradict each other.
// Needs ideal_scales.
void exact_betas(Graph& graph);

}  // namespace sigma1
