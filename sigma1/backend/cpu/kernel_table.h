// Which kernel computes which op on the CPU. Each family's kernels live in the file of its name.
#pragma once

#include "sigma1/backend/cpu/kernel.h"

namespace sigma1::cpu {

std::span<const Kernel> attention_kernels();
std::span<const Kernel> cast_kernels();
std::span<const Kernel> collective_kernels();
std::span<const Kernel> conv_kernels();
std::span<const Kernel> embedding_kernels();
std::span<const Kernel> linear_kernels();
std::span<const Kernel> norm_kernels();
std::span<const Kernel> pointwise_kernels();
std::span<const Kernel> recurrent_kernels();
std::span<const Kernel> reduce_kernels();
std::span<const Kernel> rotary_kernels();
std::span<const Kernel> shape_kernels();
std::span<const Kernel> softmax_kernels();
std::span<const Kernel> source_kernels();
std::span<const Kernel> update_kernels();

// Throws Bug when the op has none: every op of the catalogue has one.
const Kernel& find_kernel(const OpDef& op);

}  // namespace sigma1::cpu
