// The inner loops of the instruction set in use.
#pragma once

#include "sigma1/backend/cpu/vector_kernels.h"

namespace sigma1::cpu {

const VectorKernels& vectors();

}  // namespace sigma1::cpu
