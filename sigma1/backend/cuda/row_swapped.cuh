// The swapped form of a row chain's kernel: tensor cores multiply weights by rows instead of rows
// by weights, and read both from shared memory themselves. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/row_kernel.cuh"

namespace sigma1::cuda {

using RowKernel = void (*)(RowCode, RowMatrices);

RowKernel swapped_row_kernel(Type type);

}  // namespace sigma1::cuda
