// The least a step can take: its matrix products alone, on warm memory, by the same library. What a
// step takes beyond it is ours to answer for.
#pragma once

#include "sigma1/runtime/program.h"

namespace sigma1 {

// Seconds for all products of one run of the program, the best of `repeats`. Runs the program once
// to learn them.
double gemm_floor(Program& program, int repeats = 3);

}  // namespace sigma1
