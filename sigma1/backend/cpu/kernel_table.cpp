#include "sigma1/backend/cpu/kernel_table.h"

#include "sigma1/base/error.h"

namespace sigma1::cpu {

const Kernel& find_kernel(const OpDef& op) {
  for (auto family :
       {attention_kernels, cast_kernels, collective_kernels, conv_kernels, embedding_kernels,
        linear_kernels, norm_kernels, pointwise_kernels, recurrent_kernels, reduce_kernels,
        rotary_kernels, shape_kernels, softmax_kernels, source_kernels, update_kernels}) {
    for (const Kernel& kernel : family()) {
      if (kernel.op == &op) return kernel;
    }
  }
  throw Bug("{}: there is no CPU kernel", op.name);
}

}  // namespace sigma1::cpu
