// Ranks that differ in what they were told would train, and learn nothing.
#pragma once

#include "sigma1/train/session.h"

namespace sigma1 {

// All ranks call it. Throws Error in all where one has other settings, data, another checkpoint or
// a CPU where others have a GPU.
void expect_the_same_everywhere(const Session& session, const Corpus& corpus);

}  // namespace sigma1
