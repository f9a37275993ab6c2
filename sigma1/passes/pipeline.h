// Passes in order, each verified and timed by name: the pipeline is data.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "sigma1/graph/graph.h"

namespace sigma1 {

struct Pass {
  std::string name;
  std::function<void(Graph&)> run;
};

struct PassTiming {
  std::string name;
  double milliseconds;
};

// Runs the passes up to and including `last` (all, when empty) and verifies the graph after each.
// Throws Error when no pass has that name.
std::vector<PassTiming> run_passes(Graph& graph, const std::vector<Pass>& passes,
                                   const std::string& last = {});

}  // namespace sigma1
