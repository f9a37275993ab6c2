// The recurrence on the GPU, over as many steps as a model takes, against the CPU in fp32.
#include <gtest/gtest.h>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/simulate.h"
#include "sigma1/ops/recurrent.h"
#include "tests/gpu/timed_call.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

struct Sizes {
  int64_t batch, time, n_in, h;
};

// In a test's name.
void PrintTo(const Sizes& n, std::ostream* out) {
  *out << fmt::format("{}x{}x{} to {}", n.batch, n.time, n.n_in, n.h);
}

// A model's layer; states of other sizes, one of them too large for registers; one step.
constexpr Sizes kTarget{8, 256, 128, 128};
constexpr Sizes kSizes[] = {
    kTarget, {3, 37, 48, 64}, {2, 11, 20, 100}, {2, 7, 16, 144}, {5, 1, 8, 16}};

class Recurrent : public testing::TestWithParam<Sizes> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
    auto [batch, time, n_in, h] = GetParam();
    inputs = {{{batch, time, n_in}}, {{n_in + h, 2, h}}, {{2, h}}, {{h}}};
    grad_inputs = inputs;
    grad_inputs.push_back({{batch, time, h}});
    attributes.set("weight_scale", 1 / std::sqrt(static_cast<double>(n_in + h)));
  }
  static std::vector<Tensor> sampled(const OpDef& op, const std::vector<TensorType>& types,
                                     const Attributes& attributes) {
    std::vector<Tensor> tensors;
    for (size_t i = 0; i < types.size(); ++i) {
      tensors.push_back(sample_input(op, {types, attributes}, i, false, 5));
    }
    return tensors;
  }
  KernelCall forward(const Storage& storage) const {
    const OpDef& op = recurrent_highway_op;
    return {op, inputs, attributes, storage, sampled(op, inputs, attributes), cuda_device()};
  }
  // dy is `size` at the last step of each sample and 0 elsewhere, or everywhere.
  KernelCall backward(const Storage& storage, double size = 1, bool is_sparse = false) const {
    const OpDef& op = recurrent_highway_grad_op;
    std::vector<Tensor> tensors = sampled(op, grad_inputs, attributes);
    int64_t time = GetParam().time, h = GetParam().h;
    for (int64_t i = 0; i < tensors[4].count(); ++i) {
      tensors[4][i] *= !is_sparse || i / h % time == time - 1 ? size : 0;
    }
    return {op, grad_inputs, attributes, storage, tensors, cuda_device()};
  }
  // Every output, against the CPU's on the same numbers.
  void expect_cpu(const OpDef& op, const std::vector<TensorType>& types, const KernelCall& call,
                  double bound) const {
    KernelCall exact(op, types, attributes, {"fp32", {"fp32"}, {"fp32"}}, call.inputs());
    auto got = call.run(), want = exact.run();
    for (size_t o = 0; o < got.size(); ++o) {
      EXPECT_LE(relative_error(decoded(call.output(o), got[o]), decoded(exact.output(o), want[o])),
                bound)
          << "output " << o;
    }
  }

  std::vector<TensorType> inputs, grad_inputs;
  Attributes attributes;
};

// Weights and states as stored, results in fp32.
Storage wide_results(const char* format) {
  std::string f = format;
  return {f + " to fp32", {f, f, f, f, "fp32"}, {"fp32"}};
}

TEST_P(Recurrent, GivesWhatTheCpuGives) {
  for (const char* format : {"fp16", "bf16", "fp32"}) {
    SCOPED_TRACE(format);
    expect_cpu(recurrent_highway_op, inputs, forward(wide_results(format)), 1e-5);
  }
}

// However small or large a gradient is, and after many steps without one.
TEST_P(Recurrent, GivesTheGradientsOfTheCpu) {
  for (const char* format : {"fp16", "bf16", "fp32"}) {
    SCOPED_TRACE(format);
    for (double size : {1e-12, 1.0, 1e9}) {
      SCOPED_TRACE(size);
      expect_cpu(recurrent_highway_grad_op, grad_inputs, backward(wide_results(format), size),
                 1e-5);
    }
    expect_cpu(recurrent_highway_grad_op, grad_inputs, backward(wide_results(format), 1, true),
               1e-5);
  }
}

// Steps by tensor cores, but products of an x that these do not take.
TEST_P(Recurrent, TakesInputsWiderThanWeights) {
  Storage storage{"fp32 by fp16", {"fp32", "fp16", "fp16", "fp16", "fp32"}, {"fp32"}};
  expect_cpu(recurrent_highway_op, inputs, forward(storage), 1e-5);
  expect_cpu(recurrent_highway_grad_op, grad_inputs, backward(storage), 1e-5);
}

TEST_P(Recurrent, RoundsResultsOnce) {
  for (auto [format, rounding] : {std::pair{"fp16", 0x1p-11}, {"bf16", 0x1p-8}}) {
    SCOPED_TRACE(format);
    expect_cpu(recurrent_highway_op, inputs, forward({format, {format}, {format}}), rounding);
    expect_cpu(recurrent_highway_grad_op, grad_inputs, backward({format, {format}, {format}}),
               rounding);
  }
}

TEST_P(Recurrent, GivesTheSameBitsAgain) {
  for (const char* format : {"fp16", "bf16", "fp32"}) {
    for (const KernelCall& call :
         {forward({format, {format}, {format}}), backward({format, {format}, {format}})}) {
      EXPECT_EQ(call.run(), call.run()) << format;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, Recurrent, testing::ValuesIn(kSizes));

using RecurrentTimes = Recurrent;

TEST_P(RecurrentTimes, AreShown) {
  for (const char* format : {"fp16", "bf16", "fp32"}) {
    Storage storage{format, {format}, {format}};
    double advance = microseconds_of(forward(storage), attributes);
    double retreat = microseconds_of(backward(storage), attributes);
    fmt::print("recurrent_highway in {}: {:.1f} us, its gradient {:.1f} us\n", format, advance,
               retreat);
  }
}

INSTANTIATE_TEST_SUITE_P(Target, RecurrentTimes, testing::Values(kTarget));

}  // namespace
}  // namespace sigma1
