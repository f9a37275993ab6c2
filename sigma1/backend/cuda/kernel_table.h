// Which kernel computes which op on a GPU. Each family's kernels live in the file of its name.
#pragma once

#include "sigma1/backend/kernel.h"

namespace sigma1::cuda {

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

}  // namespace sigma1::cuda
