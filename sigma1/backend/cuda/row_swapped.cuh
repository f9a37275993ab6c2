// The swapped form of a row chain's kernel: tensor cores multiply weights by rows instead of rows
// by weights, and read both from shared memory themselves. Clusters have 1, 2 or 4 blocks. Private
// to this folder.
#pragma once

#include "sigma1/backend/cuda/row_kernel.cuh"

namespace sigma1::cuda {

using RowKernel = void (*)(RowCode, RowMatrices);

RowKernel swapped_row_kernel(Type type, int cluster);

// One warp more sends for weights, and in a cluster of several blocks another tells which are used.
constexpr int swapped_threads(int cluster) { return kWorkers + (cluster > 1 ? 64 : 32); }

}  // namespace sigma1::cuda
