#include "sigma1/passes/unit_scaling.h"

#include "sigma1/analysis/potentials.h"
#include "sigma1/base/error.h"

namespace sigma1 {

Scheme parse_scheme(std::string_view name) {
  if (name == "paper") return Scheme::paper;
  if (name == "exact") return Scheme::exact;
  throw Error("scheme: expected paper or exact, got '{}'", name);
}

ScalingOptions ScalingOptions::of(Scheme scheme) {
  ScalingOptions options;
  options.scheme = scheme;
  if (scheme == Scheme::exact) options.context = {Criterion::rms, false};
  return options;
}

std::vector<Pass> unit_scaling_passes(const ScalingOptions& options) {
  Pass ideal{"ideal_scales", [options](Graph& graph) { ideal_scales(graph, options); }};
  Pass proof{"check", [](Graph& graph) { check_gradients_valid(graph); }};
  if (options.scheme == Scheme::exact) {
    return {{"unit_init", unit_init}, ideal, {"exact_betas", exact_betas}, proof};
  }
  Pass constraints{"constrain", [options](Graph& graph) { constrain(graph, options.mean); }};
  return {{"unit_init", unit_init}, {"residual", residual}, ideal, constraints, proof};
}

std::vector<PassTiming> unit_scale(Graph& graph, const ScalingOptions& options) {
  return run_passes(graph, unit_scaling_passes(options));
}

}  // namespace sigma1
