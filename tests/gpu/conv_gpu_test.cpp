// Convolution on tensor cores against the way that every format and shape can go.
#include <gtest/gtest.h>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/simulate.h"
#include "sigma1/ops/conv.h"
#include "tests/gpu/timed_call.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

struct Sizes {
  int64_t batch, time, c_in, kernel, c_out, groups;
  bool causal;
};

// In a test's name.
void PrintTo(const Sizes& n, std::ostream* out) {
  *out << fmt::format("{}x{}x{} kernel {} to {} in {} groups", n.batch, n.time, n.c_in, n.kernel,
                      n.c_out, n.groups);
}

// A model's layer; several tiles with remainders, wider groups on either side, more taps than a
// block has warps, sequences shorter than the kernel, more sequences than chunks.
constexpr Sizes kTarget{8, 256, 128, 7, 128, 8, true};
constexpr Sizes kSizes[] = {kTarget,
                            {2, 300, 64, 9, 32, 2, false},
                            {3, 70, 32, 3, 96, 2, true},
                            {3, 5, 48, 9, 16, 1, true},
                            {40, 17, 16, 2, 16, 1, true},
                            {2, 600, 16, 1, 32, 1, false}};

struct OpCase {
  const OpDef* op;
  std::vector<TensorType> inputs;
  Attributes attributes;
};

std::vector<OpCase> ops_of(const Sizes& n) {
  int64_t time_out = n.causal ? n.time : n.time - n.kernel + 1;
  TensorType x{{n.batch, n.time, n.c_in}}, w{{n.kernel, n.c_in / n.groups, n.c_out}};
  TensorType bias{{n.c_out}}, y{{n.batch, time_out, n.c_out}};
  Attributes attributes{
      {"stride", int64_t{1}}, {"dilation", int64_t{1}}, {"groups", n.groups}, {"causal", n.causal}};
  Attributes for_input = attributes, for_weight = attributes;
  for_input.set("time", n.time);
  for_weight.set("kernel", n.kernel);
  return {{&conv1d_op, {x, w, bias}, attributes},
          {&conv1d_grad_input_op, {y, w}, for_input},
          {&conv1d_grad_weight_op, {x, y}, for_weight}};
}

class ConvOnTensorCores : public testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
  static KernelCall call(const OpCase& each, const Storage& storage) {
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < each.inputs.size(); ++i) {
      inputs.push_back(sample_input(*each.op, {each.inputs, each.attributes}, i, false, 5));
    }
    return {*each.op, each.inputs, each.attributes, storage, inputs, cuda_device()};
  }
};

double error_against_fp32(const OpCase& each, const KernelCall& call) {
  KernelCall exact(*each.op, each.inputs, each.attributes, {"fp32", {"fp32"}, {"fp32"}},
                   call.inputs(), cuda_device());
  return relative_error(decoded(call.output(0), call.run()[0]),
                        decoded(exact.output(0), exact.run()[0]));
}

TEST_P(ConvOnTensorCores, GivesWhatFp32Gives) {
  for (const OpCase& each : ops_of(GetParam())) {
    for (const char* format : {"fp16", "bf16"}) {
      SCOPED_TRACE(fmt::format("{} in {}", each.op->name, format));
      // The inputs are the same numbers: but for the order of its sum, so is the result.
      EXPECT_LE(error_against_fp32(each, call(each, {format, {format}, {"fp32"}})), 3e-6);
      double rounding = std::string(format) == "fp16" ? 0x1p-11 : 0x1p-8;
      EXPECT_LE(error_against_fp32(each, call(each, {format, {format}, {format}})), rounding);
    }
  }
}

TEST_P(ConvOnTensorCores, GivesTheSameBitsAgain) {
  for (const OpCase& each : ops_of(GetParam())) {
    KernelCall twice = call(each, {"fp16", {"fp16"}, {"fp16"}});
    EXPECT_EQ(twice.run(), twice.run()) << each.op->name;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ConvOnTensorCores, testing::ValuesIn(kSizes));

using ConvTimes = ConvOnTensorCores;

TEST_P(ConvTimes, AreShown) {
  for (const OpCase& each : ops_of(GetParam())) {
    for (const char* format : {"fp16", "bf16", "fp32"}) {
      KernelCall timed = call(each, {format, {format}, {format}});
      fmt::print("{} in {}: {:.1f} us\n", each.op->name, format,
                 microseconds_of(timed, each.attributes));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Target, ConvTimes, testing::Values(kTarget));

}  // namespace
}  // namespace sigma1
