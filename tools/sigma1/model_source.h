// A trained model named on the command line: a checkpoint, or a run's folder, whose newest counts.
#pragma once

#include <string>

#include "sigma1/train/checkpoints.h"

namespace sigma1 {

// Warnings go to stderr. Throws Error when there is no whole checkpoint.
Checkpoint open_model(const std::string& path);

}  // namespace sigma1
