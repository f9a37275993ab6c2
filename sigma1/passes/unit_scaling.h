// The recipe of unit scaling in one call: from a plain forward graph to one that is proven to have
// valid gradients.
#pragma once

#include <string_view>

#include "sigma1/passes/pipeline.h"
#include "sigma1/passes/scaling.h"

namespace sigma1 {

enum class Scheme {
  paper,  // Table A.2, means on non-cut edges, the id* rewrite: the reproduction
  exact,  // ideal α everywhere, β by potentials: no compromise
};
Scheme parse_scheme(std::string_view name);

struct ScalingOptions {
  Scheme scheme = Scheme::paper;
  ScaleContext context;
  Mean mean = Mean::geometric;
  int64_t gradient_repeats = 1;  // accumulation steps × data-parallel ranks

  // What each scheme means by default: paper as printed with std, exact by better rules with RMS.
  static ScalingOptions of(Scheme scheme);
};

// unit_init, then the scheme's passes, then the proof.
std::vector<Pass> unit_scaling_passes(const ScalingOptions& options);

// Throws Error, naming the cycle, when the result would have wrong gradients; no graph compiled
// here does unless factors were pinned by hand.
std::vector<PassTiming> unit_scale(Graph& graph, const ScalingOptions& options = {});

}  // namespace sigma1
