// Where a run can go on from: one safetensors file for each saved step, in a folder of the run. At
// every moment, also when the program or the machine stops, the newest whole file is the state to
// resume.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "sigma1/runtime/safetensors.h"

namespace sigma1 {

std::filesystem::path checkpoint_path(const std::filesystem::path& folder, int64_t step);

// Writes folder/step-00001000.safetensors and makes the folder; metadata gains "step". Only when it
// is complete go the older ones beyond the `keep` newest, what an interrupted write left, and
// checkpoints of later steps: those belong to a past that this run has gone back on.
void save_checkpoint(const std::filesystem::path& folder, int64_t step,
                     std::span<const StoredTensor> tensors, const Metadata& metadata, int keep);

struct Checkpoint {
  int64_t step;
  SafetensorsFile file;
  std::vector<std::string> warnings;  // newer checkpoints that had to be passed over, and why
};

// Throws Error when the file is not a whole checkpoint.
Checkpoint load_checkpoint(const std::filesystem::path& path);

// Whether a folder, which need not be there, has any: an end of the program during the first write
// leaves none.
bool has_checkpoint(const std::filesystem::path& folder);

// The newest whole one of a folder; Error when it has none.
Checkpoint latest_checkpoint(const std::filesystem::path& folder);

// What a person means by a path: a file, a folder of them, or a run's folder.
Checkpoint find_checkpoint(const std::filesystem::path& path);

}  // namespace sigma1
