#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/ops/conv.h"
#include "tests/backend/check_kernel.h"

namespace sigma1::cpu {
namespace {

struct Sizes {
  int64_t batch, time, c_in, kernel, c_out;
};

// The three kernels on one convolution: forward with bias, then the gradients of x and w.
std::vector<KernelCall> calls(const Sizes& sizes, const Conv1dOptions& options) {
  auto [batch, time, c_in, kernel, c_out] = sizes;
  Attributes attributes{{"stride", options.stride},
                        {"dilation", options.dilation},
                        {"groups", options.groups},
                        {"causal", options.causal}};
  Shape x{batch, time, c_in}, w{kernel, c_in / options.groups, c_out};
  Shape y{batch, conv_dims(x, w, attributes).time_out, c_out};
  Attributes for_input = attributes, for_weight = attributes;
  for_input.set("time", time);
  for_weight.set("kernel", kernel);
  std::span<const Kernel> kernels = conv_kernels();
  return {{&kernels[0], normal_tensors({x, w, {c_out}}), attributes},
          {&kernels[1], normal_tensors({y, w}), for_input},
          {&kernels[2], normal_tensors({x, y}), for_weight}};
}

constexpr Sizes kOdd{3, 301, 10, 4, 15};  // more than one piece of time
const Conv1dOptions kOptions[] = {
    {},
    {.groups = 5, .causal = true},
    {.stride = 3},
    {.stride = 3, .dilation = 2, .groups = 5, .causal = true},
    {.dilation = 90},
};

TEST(ConvKernels, GiveTheReference) {
  for (const Conv1dOptions& options : kOptions) {
    for (const KernelCall& call : calls(kOdd, options)) expect_reference(call);
  }
}

TEST(ConvKernels, GiveTheReferenceForManyChannels) {
  for (const KernelCall& call : calls({2, 70, 130, 3, 66}, {.causal = true})) {
    expect_reference(call);
  }
}

// The first taps of a long causal kernel read nothing but padding.
TEST(ConvKernels, GiveTheReferenceForAKernelLongerThanTime) {
  for (const KernelCall& call : calls({2, 3, 4, 9, 6}, {.groups = 2, .causal = true})) {
    expect_reference(call);
  }
}

TEST(ConvKernels, ReadAndWriteFp16) {
  for (KernelCall call : calls(kOdd, kOptions[3])) {
    call.codec = &fp16_codec();
    expect_reference(call);
  }
}

TEST(ConvKernels, GiveTheSameBitsOnAnyThreads) {
  for (const KernelCall& call : calls(kOdd, kOptions[1])) expect_same_on_any_threads(call);
}

}  // namespace
}  // namespace sigma1::cpu
