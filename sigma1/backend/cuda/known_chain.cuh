// The chains of one op that large models spend their time on, between formats that the compiler
// knows: the interpreter needs about 36 instructions for a number of gelu, of which gelu is 20, and
// so is slower than memory. Private to this folder.
#pragma once

#include <optional>

#include "sigma1/backend/cuda/instructions.cuh"
#include "sigma1/backend/kernel.h"

namespace sigma1::cuda {

// Runs the instruction with the bits that the interpreter gives, if there is a kernel for it; else
// nothing. `sums`: as launch_code's, and so is the result.
std::optional<int64_t> run_known(const Instruction& only, const Output& to, const Buffer& out,
                                 float* sums);

}  // namespace sigma1::cuda
