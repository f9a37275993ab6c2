// Kernels that are compiled when they are first wanted, for what is known then. They are kept in
// memory, and in a folder for the next run. Private to this folder.
#pragma once

#include <cuda_runtime.h>

#include <string>

namespace sigma1::cuda {

// Machine code of a source, which may include what the sources of cluster chains include, and
// nothing else: the folder's, or compiled and left there. Needs no GPU. Throws Bug with what the
// compiler said.
std::string machine_code(const std::string& source);

// The kernel of that name, for the calling thread's device, with all the shared memory that a block
// may have.
cudaKernel_t compiled_kernel(const std::string& source, const char* name);

}  // namespace sigma1::cuda
