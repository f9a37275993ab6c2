// Every op that treats each element alone, as a chain of itself.
#include "sigma1/ops/pointwise.h"

#include "sigma1/backend/cuda/chain.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/ops/residual.h"

namespace sigma1::cuda {
namespace {

template <const OpDef& op>
void run(const Launch& launch) {
  run_pointwise(op, launch);
}

bool in_place(size_t, size_t) { return true; }

template <const OpDef& op>
constexpr Kernel kernel() {
  return {&op, run<op>, pointwise_workspace, in_place, true};
}

constexpr Kernel kKernels[] = {
    kernel<relu_op>(),          kernel<gelu_op>(),         kernel<gelu_tanh_op>(),
    kernel<tanh_op>(),          kernel<sigmoid_op>(),      kernel<silu_op>(),
    kernel<softplus_op>(),      kernel<exp_op>(),          kernel<log_op>(),
    kernel<relu_grad_op>(),     kernel<gelu_grad_op>(),    kernel<gelu_tanh_grad_op>(),
    kernel<tanh_grad_op>(),     kernel<sigmoid_grad_op>(), kernel<silu_grad_op>(),
    kernel<softplus_grad_op>(), kernel<exp_grad_op>(),     kernel<log_grad_op>(),
    kernel<mul_op>(),           kernel<scale_op>(),        kernel<identity_op>(),
    kernel<dropout_op>(),       kernel<add_op>(),          kernel<weighted_add_op>(),
};

}  // namespace

std::span<const Kernel> pointwise_kernels() { return kKernels; }

}  // namespace sigma1::cuda
