// One command in every process that mpirun or srun started, failing as one.
#pragma once

#include <functional>

namespace sigma1 {

// Thrown when the user knows already: only the exit code is left to give.
struct Told {
  int exit_code;
};

// Runs `body` with ranks() connected. An error that all ranks have is told by the first, before any
// leaves: a launcher ends all as soon as one has. A rank that fails alone tells it and ends the
// others, who would wait for it.
void run_ranks(const std::function<void()>& body);

// Threads for this rank: its share of a machine's cores, unless the launcher gave it cores of its
// own. 0, as many as the machine has, for one that is alone.
int threads_of_rank();

}  // namespace sigma1
