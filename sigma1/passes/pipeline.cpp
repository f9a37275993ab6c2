#include "sigma1/passes/pipeline.h"

#include <fmt/ranges.h>
#include <algorithm>

#include "sigma1/base/error.h"
#include "sigma1/graph/verify.h"

namespace sigma1 {
namespace {

void check_name(const std::vector<Pass>& passes, const std::string& last) {
  std::vector<std::string> names;
  for (const Pass& pass : passes) names.push_back(pass.name);
  if (last.empty() || std::ranges::find(names, last) != names.end()) return;
  throw Error("no pass '{}'; the passes are {}", last, fmt::join(names, ", "));
}

}  // namespace

std::vector<PassTiming> run_passes(Graph& graph, const std::vector<Pass>& passes,
                                   const std::string& last) {
  check_name(passes, last);
  std::vector<PassTiming> timings;
  for (const Pass& pass : passes) {
    auto begin = std::chrono::steady_clock::now();
    pass.run(graph);
    std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - begin;
    timings.push_back({pass.name, spent.count()});
    try {
      verify(graph);
    } catch (const Bug& bug) {
      throw Bug("after pass {}: {}", pass.name, bug.what());
    }
    if (pass.name == last) break;
  }
  return timings;
}

}  // namespace sigma1
