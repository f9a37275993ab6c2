// Launching kernels that have most of a multiprocessor's shared memory. Private to this folder.
#pragma once

#include <type_traits>

#include "sigma1/backend/cuda/kernel.cuh"

namespace sigma1::cuda {

// `floats` of shared memory, more than a kernel has unasked. `what` names it where that fails.
template <class... Parameters>
void launch_with_room(const char* what, void (*kernel)(Parameters...), int64_t blocks, int threads,
                      int floats, std::type_identity_t<Parameters>... arguments) {
  int bytes = floats * static_cast<int>(sizeof(float));
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), what);
  kernel<<<static_cast<unsigned>(blocks), threads, static_cast<size_t>(bytes), stream()>>>(
      arguments...);
  check(cudaGetLastError(), what);
}

}  // namespace sigma1::cuda
