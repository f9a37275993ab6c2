// Attention by tensor cores: in fp32 against the reference, in other formats against the fp32
// kernels of the same GPU, on the numbers that the format holds; and how long each takes.
#include <cstdio>

#include "tests/gpu/attention_case.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

constexpr AttentionCase kSmallModel{8, 2, 256, 256, 64, true, true};

double largest_magnitude(const Tensor& tensor) {
  double largest = 0;
  for (double x : tensor.data) largest = std::max(largest, std::fabs(x));
  return largest;
}

double largest_error(const Tensor& got, const Tensor& want) {
  double largest = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    largest = std::max(largest, std::fabs(got[i] - want[i]));
  }
  return largest / largest_magnitude(want);
}

class CudaAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }

  // In fp32: the norm of the errors over that of the outputs, and any error over the largest
  // output.
  static void expect_reference(const AttentionCase& c, double dy_scale) {
    constexpr double kRelative = 2e-6, kOfLargest = 64 * 0x1p-24;
    for (const OpDef* op : {&attention_op, &attention_grad_op}) {
      Attributes attributes = c.attributes();
      KernelCall call(*op, c.types(*op), attributes, {"fp32", {"fp32"}, {"fp32"}, true},
                      c.inputs(*op, dy_scale), cuda_device());
      std::vector<const Tensor*> inputs;
      for (const Tensor& input : call.inputs()) inputs.push_back(&input);
      std::vector<Tensor> want;
      for (size_t o = 0; o < call.output_count(); ++o) want.emplace_back(call.output(o).shape);
      op->evaluate({inputs, want, attributes, KernelCall::kStep});
      std::vector<std::vector<std::byte>> got = call.run();
      EXPECT_EQ(got, call.run()) << "not the same bits again";
      for (size_t o = 0; o < got.size(); ++o) {
        Tensor output = decoded(call.output(o), got[o]);
        EXPECT_LE(relative_error(output, want[o]), kRelative) << op->name << " output " << o;
        EXPECT_LE(largest_error(output, want[o]), kOfLargest) << op->name << " output " << o;
      }
    }
  }
};

// Each factor has 21 significant bits at least; sums of results that tensor cores cut off have more
// roundings than others, but far fewer than a kernel may have.
TEST_F(CudaAttention, IsThatOfTheReferenceInFp32) {
  const AttentionCase cases[] = {kSmallModel,
                                 {2, 3, 100, 100, 48, true, true, true},
                                 {3, 2, 100, 100, 36, true, false, true},
                                 {2, 2, 200, 200, 128},
                                 {2, 1, 313, 313, 116, true, true},
                                 {2, 2, 33, 300, 16, false, false, true},
                                 {1, 2, 300, 33, 96},
                                 {1, 1, 2, 2, 4, true, true},
                                 {2, 1, 1, 500, 64, false, false, true},
                                 // Heads that no tensor core takes:
                                 {2, 2, 70, 70, 18, true, true, true},
                                 {1, 1, 70, 70, 160, true, true},
                                 // More scores than are kept for the gradient, and of large heads:
                                 {2, 1, 1100, 1100, 64, true, true, true},
                                 {1, 3, 1000, 1050, 40},
                                 {1, 1, 1500, 1500, 72, true, true}};
  for (const AttentionCase& each : cases) {
    SCOPED_TRACE(each.label());
    expect_reference(each, 1);
  }
}

// However small or large dy is.
TEST_F(CudaAttention, TakesFp32GradientsOfAnyScale) {
  for (double scale : {1e-25, 1e-9, 1e9, 1e25}) {
    SCOPED_TRACE(scale);
    expect_reference({2, 2, 150, 150, 64, true, true}, scale);
  }
}

TEST_F(CudaAttention, IsThatOfFp32) {
  const AttentionCase cases[] = {kSmallModel,
                                 {2, 3, 100, 100, 48, true, true, true},
                                 {3, 2, 100, 100, 48, true, false, true},
                                 {2, 2, 600, 600, 128},
                                 {2, 1, 513, 513, 112, true, true},
                                 {2, 2, 33, 300, 16, false, false, true},
                                 {1, 2, 300, 33, 96},
                                 // More scores than are kept for the gradient:
                                 {1, 2, 2000, 2000, 64, true, true},
                                 {16, 2, 520, 520, 112, true, true, true},
                                 {32, 2, 450, 470, 48, false, false, true}};
  for (const AttentionCase& each : cases) {
    for (const char* format : {"fp16", "bf16"}) {
      SCOPED_TRACE(each.label() + " in " + format);
      expect_close(each, format, 1);
    }
  }
}

// What fp16 holds of dy is all that is lost, however small or large it is.
TEST_F(CudaAttention, TakesGradientsOfAnyScale) {
  for (double scale : {1e-6, 1e-3, 1e3, 1e4}) {
    SCOPED_TRACE(scale);
    expect_close(kSmallModel, "fp16", scale);
    expect_close({2, 3, 100, 100, 48, true, true, true}, "fp16", scale);
  }
  for (double scale : {1e-12, 1e-7, 1e4, 1e9}) {
    SCOPED_TRACE(scale);
    expect_close(kSmallModel, "bf16", scale);
  }
}

TEST_F(CudaAttention, StaysInFp32ForOtherHeads) {
  for (const OpDef* op : {&attention_op, &attention_grad_op}) {
    for (double error : attention_errors(*op, {2, 2, 40, 40, 18, true, true}, "fp16", 1)) {
      EXPECT_EQ(error, 0) << op->name;
    }
  }
}

// Prints only: a machine may be busy.
TEST_F(CudaAttention, TakesMicroseconds) {
  const AttentionCase cases[] = {
      kSmallModel, {8, 2, 256, 256, 128, true, true}, {2, 8, 2048, 2048, 64, true, true}};
  for (const AttentionCase& each : cases) {
    std::printf("%s\n", each.label().c_str());
    for (const char* format : {"fp32", "fp16", "bf16"}) {
      double times[2];
      for (bool backward : {false, true}) {
        const OpDef& op = backward ? attention_grad_op : attention_op;
        Attributes attributes = each.attributes();
        KernelCall call(op, each.types(op), attributes, {format, {format}, {format}},
                        each.inputs(op, 1), cuda_device());
        times[backward] = microseconds_of(call, attributes);
      }
      std::printf("  %s: forward %.2f us, backward %.2f us\n", format, times[0], times[1]);
    }
  }
}

}  // namespace
}  // namespace sigma1
