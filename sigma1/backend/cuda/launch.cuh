// Launching kernels that have most of a multiprocessor's shared memory, or that follow each other
// without a pause. Private to this folder.
#pragma once

#include <type_traits>

#include "sigma1/backend/cuda/kernel.cuh"

namespace sigma1::cuda {

// Bytes of shared memory that a block may have.
inline constexpr int kMostShared = 227 * 1024;

// Lets a kernel have all that its own variables leave, whatever a launch takes: another thread may
// be about to launch the same kernel with more.
template <class Function>
void allow_most_shared(Function kernel, const char* what) {
  cudaFuncAttributes own{};
  check(cudaFuncGetAttributes(&own, kernel), what);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             kMostShared - static_cast<int>(own.sharedSizeBytes)),
        what);
}

// `floats` of shared memory, more than a kernel has unasked. `what` names it where that fails.
template <class... Parameters>
void launch_with_room(const char* what, void (*kernel)(Parameters...), int64_t blocks, int threads,
                      int floats, std::type_identity_t<Parameters>... arguments) {
  int bytes = floats * static_cast<int>(sizeof(float));
  allow_most_shared(kernel, what);
  kernel<<<static_cast<unsigned>(blocks), threads, static_cast<size_t>(bytes), stream()>>>(
      arguments...);
  check(cudaGetLastError(), what);
}

struct Grid {
  dim3 blocks, threads;
  size_t shared_bytes = 0;
};

// `what` names it where that fails.
template <class... Parameters>
void launch_kernel(const char* what, void (*kernel)(Parameters...), const Grid& grid,
                   std::type_identity_t<Parameters>... arguments) {
  kernel<<<grid.blocks, grid.threads, grid.shared_bytes, stream()>>>(arguments...);
  check(cudaGetLastError(), what);
}

// The same for a kernel that may begin before the one launched before it has ended, as soon as all
// blocks of that one have called let_next_begin(): before it touches anything which that one writes
// or reads, each thread calls wait_for_last(). Pays where there is work to do until then.
template <class... Parameters>
void launch_early(const char* what, void (*kernel)(Parameters...), const Grid& grid,
                  std::type_identity_t<Parameters>... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = grid.threads;
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = stream();
  config.attrs = &early;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), what);
}
__device__ inline void let_next_begin() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
__device__ inline void wait_for_last() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

}  // namespace sigma1::cuda
