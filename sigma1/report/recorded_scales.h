// What a run has recorded of its tensors' scales, read back from its scales.jsonl: to be looked at
// without its checkpoints, and on a machine where it could not run.
#pragma once

#include <filesystem>
#include <vector>

#include "sigma1/runtime/probe.h"

namespace sigma1 {

struct RecordedScales {
  int64_t step = 0;
  std::vector<TensorScale> tensors;
};

// The first record of a run and, where there are several, the last. Throws Error that names file
// and line.
std::vector<RecordedScales> recorded_scales(const std::filesystem::path& run);

}  // namespace sigma1
