// Ranks that are threads of one process: what several processes do, where a debugger and the
// sanitizers can see it.
#pragma once

#include <functional>

#include "sigma1/base/communicator.h"

namespace sigma1 {

// Runs `body` in as many threads, each a rank of the same world, and throws what one of them threw.
void run_as_ranks(int count, const std::function<void(int rank)>& body);

}  // namespace sigma1
