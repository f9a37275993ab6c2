// Attention at the sizes of language models, which tall tiles compute: see attention_gpu_test.cu
// for smaller ones. And how long it takes.
#include <cstdio>

#include "sigma1/passes/precision.h"
#include "tests/gpu/attention_case.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

class CudaTallAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(CudaTallAttention, IsThatOfFp32) {
  const AttentionCase cases[] = {{13, 1, 1024, 1024, 64, true},
                                 {10, 6, 200, 200, 64, true, false, true},
                                 {26, 4, 128, 128, 64, false, false, true},
                                 {26, 4, 128, 128, 48, true, false, true},
                                 {13, 1, 1000, 1000, 128, true, false, true},
                                 {13, 1, 1024, 1024, 128},
                                 {4, 13, 200, 333, 128, false, false, true},
                                 {13, 4, 333, 200, 32},
                                 {2, 7, 1000, 1000, 32, true},
                                 {5, 11, 130, 190, 80, false, false, true}};
  for (const AttentionCase& each : cases) {
    for (const char* format : {"fp16", "bf16"}) {
      SCOPED_TRACE(each.label() + " in " + format);
      expect_close(each, format, 1);
    }
  }
}

// Rounded once, from the same sums as fp32's.
TEST_F(CudaTallAttention, IsStoredIn8Bits) {
  const Cast cast = product_cast("e4m3");
  for (const AttentionCase& each : {AttentionCase{13, 2, 1024, 1024, 64, true},
                                    {13, 1, 1024, 1024, 128},
                                    {13, 4, 333, 200, 32}}) {
    SCOPED_TRACE(each.label());
    Attributes attributes = each.attributes();
    std::vector<TensorType> types = each.types(attention_op);
    std::vector<Tensor> inputs = each.inputs(attention_op, 1);
    auto result_in = [&](const char* format) {
      KernelCall call(attention_op, types, attributes, {"fp16", {"fp16"}, {format}}, inputs,
                      cuda_device());
      return decoded(call.output(0), call.run().front());
    };
    Tensor wide = result_in("fp32"), narrow = result_in("e4m3");
    int64_t wrong = 0;
    for (int64_t i = 0; i < wide.count(); ++i) wrong += narrow[i] != quantize(wide[i], cast);
    EXPECT_EQ(wrong, 0);
  }
}

TEST_F(CudaTallAttention, TakesGradientsOfAnyScale) {
  const AttentionCase cases[] = {
      {10, 6, 200, 200, 64, true}, {26, 4, 128, 128, 64, true}, {4, 13, 200, 333, 128}};
  for (const AttentionCase& each : cases) {
    for (double scale : {1e-6, 1e-4, 1e3, 1e4}) {
      SCOPED_TRACE(fmt::format("{}, dy of {}", each.label(), scale));
      expect_close(each, "fp16", scale);
    }
    for (double scale : {1e-12, 1e-7, 1e4, 1e9}) {
      SCOPED_TRACE(fmt::format("{}, dy of {}", each.label(), scale));
      expect_close(each, "bf16", scale);
    }
  }
}

// Rows that one key outweighs have means near its gradient: much cancels.
TEST_F(CudaTallAttention, IsThatOfFp32WhereFewKeysCount) {
  const AttentionCase cases[] = {{10, 6, 200, 200, 64, true}, {26, 4, 128, 128, 64, true}};
  for (const AttentionCase& each : cases) {
    SCOPED_TRACE(each.label());
    Attributes attributes = each.attributes();
    std::vector<TensorType> types = each.types(attention_grad_op);
    std::vector<Tensor> inputs = each.inputs(attention_grad_op, 1);
    for (double& x : inputs[0].data) x *= 8;
    KernelCall call(attention_grad_op, types, attributes, {"fp16", {"fp16"}, {"fp32"}}, inputs,
                    cuda_device());
    KernelCall exact(attention_grad_op, types, attributes, {"fp32", {"fp32"}, {"fp32"}},
                     call.inputs(), cuda_device());
    std::vector<std::vector<std::byte>> got = call.run(), want = exact.run();
    for (size_t o = 0; o < got.size(); ++o) {
      double error =
          relative_error(decoded(call.output(o), got[o]), decoded(exact.output(o), want[o]));
      EXPECT_LE(error, 1e-3) << "output " << o;
    }
  }
}

// In the format that is computed in, by the way of stores of their own.
TEST_F(CudaTallAttention, GivesZerosWhereNothingIsSeen) {
  const AttentionCase each{10, 6, 200, 200, 64, true, false, true};
  Attributes attributes = each.attributes();
  for (const OpDef* op : {&attention_op, &attention_grad_op}) {
    KernelCall call(*op, each.types(*op), attributes, {"bf16", {"bf16"}, {"bf16"}},
                    each.inputs(*op, 1), cuda_device());
    std::vector<std::vector<std::byte>> got = call.run();
    for (size_t o = 0; o < got.size(); ++o) {
      Tensor values = decoded(call.output(o), got[o]);
      int64_t sample = values.count() / each.batch, others = 0;
      for (int64_t i = 0; i < sample; ++i) EXPECT_EQ(values[i], 0) << op->name << " at " << i;
      for (int64_t i = sample; i < values.count(); ++i) others += values[i] != 0 ? 1 : 0;
      EXPECT_GT(others, (values.count() - sample) / 3) << op->name << " output " << o;
    }
  }
}

double microseconds(const OpDef& op, const AttentionCase& each, const char* format) {
  Attributes attributes = each.attributes();
  std::vector<TensorType> types = each.types(op);
  std::vector<Tensor> inputs;
  for (const TensorType& type : types) inputs.push_back(repeated(type));
  if (each.mask) {  // three quarters of the keys, as padding would have it
    Tensor& mask = inputs[3];
    for (int64_t i = 0; i < mask.count(); ++i) mask[i] = i % each.tk < each.tk * 3 / 4 ? 1 : 0;
  }
  KernelCall call(op, types, attributes, {format, {format}, {format}}, inputs, cuda_device());
  return microseconds_of(call, attributes);
}

// Prints only: a machine may be busy. Products of both sides, whatever is computed twice or masked.
TEST_F(CudaTallAttention, TakesMicroseconds) {
  const AttentionCase cases[] = {{32, 12, 1024, 1024, 64, true},
                                 {4, 25, 1024, 1024, 64, true},
                                 {256, 16, 128, 128, 64, false, false, true},
                                 {1, 16, 8192, 8192, 128, true}};
  for (const AttentionCase& each : cases) {
    auto flops = static_cast<double>(4 * each.batch * each.heads * each.tq * each.tk * each.d);
    if (each.causal) flops /= 2;
    std::printf("%s\n", each.label().c_str());
    for (const char* format : {"fp16", "bf16"}) {
      if (&each != cases && format == std::string("bf16")) continue;  // tensors take long to fill
      double forward = microseconds(attention_op, each, format);
      double backward = microseconds(attention_grad_op, each, format);
      std::printf("  %s: forward %.1f us, %.0f TFLOP/s; backward %.1f us, %.0f TFLOP/s\n", format,
                  forward, flops / forward * 1e-6, backward, 2.5 * flops / backward * 1e-6);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace sigma1
