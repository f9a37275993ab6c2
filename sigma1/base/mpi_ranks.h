// Ranks that talk through MPI. Only its point-to-point messages are used, and only by asking
// whether they have arrived: a rank that hangs is then noticed, and named, by those that wait.
#pragma once

#include <memory>

#include "sigma1/base/communicator.h"

namespace sigma1 {

// Ends the job, with one line that names the rank, when a rank keeps others waiting for too long.
inline constexpr int kRankLost = 75;  // exit code

// In a build without MPI: an Error.
std::unique_ptr<Communicator> connect_mpi();

}  // namespace sigma1
