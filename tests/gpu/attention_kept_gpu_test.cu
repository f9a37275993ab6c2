// Attention that keeps logarithms and its result, and its gradient from them, against the kernels
// that keep nothing, in fp32 on the same numbers. And how long both take.
#include <cstdio>

#include "sigma1/passes/precision.h"
#include "tests/gpu/attention_kept_case.h"
#include "tests/gpu/parts_call.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

// As expect_close of attention_case.h.
double bound_of(const std::string& format) { return format == "fp16" ? 1e-3 : 8e-3; }

void expect_grads(const AttentionCase& c, const std::string& format, double dy_scale) {
  std::vector<Tensor> inputs = c.inputs(attention_grad_op, dy_scale);
  std::vector<double> errors = grad_errors(c, grad_of(c, format, format, "fp32", inputs));
  for (size_t o = 0; o < errors.size(); ++o) {
    EXPECT_LE(errors[o], bound_of(format)) << "output " << o;
    EXPECT_GT(errors[o], 0) << "output " << o;
  }
}

class CudaKeptAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

// Sequences of one span and of many, of whole ones and of a rest; more heads than there are blocks,
// and fewer, so that some are cut in two and in three; and heads that are too large for tiles of
// their own, and go through fp32.
const AttentionCase kCases[] = {{13, 8, 1024, 1024, 64, true},
                                {10, 16, 200, 200, 64, true, false, true},
                                {26, 4, 128, 128, 64, false, false, true},
                                {26, 4, 128, 128, 48, true, false, true},
                                {30, 9, 129, 129, 64, true},
                                {4, 27, 200, 333, 64, false, false, true},
                                {13, 10, 333, 200, 32},
                                {2, 60, 1000, 1000, 32, true},
                                {4, 26, 640, 640, 16, true, false, true},
                                {9, 12, 130, 700, 64},
                                {16, 25, 256, 256, 64, true},
                                {13, 8, 384, 384, 128, true}};

// Each case in one of both formats: large tensors take the host long.
const char* format_of(const AttentionCase& each) { return (&each - kCases) % 2 ? "fp16" : "bf16"; }

TEST_F(CudaKeptAttention, KeepsLogarithmsAndResult) {
  for (const AttentionCase& each : kCases) {
    const char* format = format_of(each);
    SCOPED_TRACE(each.label() + " in " + format);
    std::vector<Tensor> inputs = each.inputs(attention_op, 1);
    KeptForward forward(each, format, {"fp32"}, inputs, true);
    KeptForward exact(each, "fp32", {"fp32"}, forward.call.inputs(), true);
    Bytes got = forward.call.run(), want = exact.call.run();
    EXPECT_EQ(got, forward.call.run()) << "not the same bits again";
    EXPECT_EQ(got[0], got[2]) << "the result is not that of y";
    auto error = [&](size_t o) {
      return relative_error(decoded(forward.call.output(o), got[o]),
                            decoded(exact.call.output(o), want[o]));
    };
    EXPECT_LE(error(0), bound_of(format));
    EXPECT_LE(error(1), 1e-5) << "logarithms";
  }
}

// y in 8 bits leaves its own way; what is kept beside it is the result in 16 bits, without factor.
TEST_F(CudaKeptAttention, KeepsAResultBesideOneOf8Bits) {
  const AttentionCase each{13, 8, 300, 300, 64, true};
  std::vector<Tensor> inputs = each.inputs(attention_op, 1);
  KeptForward wide(each, "fp16", {"fp32"}, inputs, true);
  KeptForward narrow(each, "fp16", {"e4m3", "fp32", "fp16"}, inputs, true);
  Bytes of_wide = wide.call.run(), of_narrow = narrow.call.run();
  for (size_t o : {0, 2}) {
    const Cast cast = narrow.call.output(o).codec->cast();
    Tensor got = decoded(narrow.call.output(o), of_narrow[o]);
    Tensor want = decoded(wide.call.output(o), of_wide[o]);
    int64_t wrong = 0;
    for (int64_t i = 0; i < want.count(); ++i) wrong += got[i] != quantize(want[i], cast);
    EXPECT_EQ(wrong, 0) << "output " << o;
  }
  EXPECT_EQ(of_wide[1], of_narrow[1]);
}

TEST_F(CudaKeptAttention, GivesGradientsOfFp32) {
  for (const AttentionCase& each : kCases) {
    const char* format = format_of(each);
    SCOPED_TRACE(each.label() + " in " + format);
    expect_grads(each, format, 1);
  }
}

TEST_F(CudaKeptAttention, TakesGradientsOfAnyScale) {
  const AttentionCase cases[] = {{10, 12, 200, 200, 64, true}, {4, 26, 200, 333, 64}};
  for (const AttentionCase& each : cases) {
    for (double scale : {1e-6, 1e-4, 1e3, 1e4}) {
      SCOPED_TRACE(fmt::format("{}, dy of {}", each.label(), scale));
      expect_grads(each, "fp16", scale);
    }
    for (double scale : {1e-12, 1e-7, 1e4, 1e9}) {
      SCOPED_TRACE(fmt::format("{}, dy of {}", each.label(), scale));
      expect_grads(each, "bf16", scale);
    }
  }
}

// Rows that one key outweighs have means near its gradient: much cancels, and a result of 16 bits
// would be too coarse to tell by how much.
TEST_F(CudaKeptAttention, GivesGradientsOfFp32WhereFewKeysCount) {
  const AttentionCase each{10, 12, 200, 200, 64, true};
  std::vector<Tensor> inputs = each.inputs(attention_grad_op, 1);
  for (double& x : inputs[0].data) x *= 8;
  for (double error : grad_errors(each, grad_of(each, "fp16", "fp32", "fp32", inputs))) {
    EXPECT_LE(error, 1e-3);
  }
}

// Whatever result and logarithms they are, of sizes that either kernel computes.
TEST_F(CudaKeptAttention, TakesAnyResultAndLogarithms) {
  for (const AttentionCase& each :
       {AttentionCase{2, 55, 150, 150, 32, true, false, true}, {2, 3, 40, 50, 32}}) {
    SCOPED_TRACE(each.label());
    std::vector<Tensor> inputs = each.inputs(attention_grad_op, 1);
    Kept kept{inputs.back(), Tensor({each.batch, each.heads, each.tq}), 0.3};
    for (int64_t i = 0; i < kept.logs.count(); ++i) {
      kept.logs[i] = 4 + 0.001 * static_cast<double>(i % 700);
    }
    for (double& x : kept.result.data) x *= 0.1;
    KeptGrad grad(each, "fp16", "bf16", "fp32", inputs, kept);
    std::vector<const Tensor*> pointers;
    for (const Tensor& input : grad.call.inputs()) pointers.push_back(&input);
    std::vector<Tensor> want;
    for (size_t o = 0; o < 3; ++o) want.emplace_back(grad.call.output(o).shape);
    attention_kept_grad_op.evaluate({pointers, want, grad.attributes, KernelCall::kStep});
    Bytes got = grad.call.run();
    for (size_t o = 0; o < 3; ++o) {
      for (double& x : want[o].data) x *= static_cast<double>(grad.call.factor(o));
      EXPECT_LE(relative_error(decoded(grad.call.output(o), got[o]), want[o]), 1e-3);
    }
  }
}

TEST_F(CudaKeptAttention, GivesZerosWhereNothingIsSeen) {
  for (const AttentionCase& each : {AttentionCase{10, 12, 200, 200, 64, true, false, true},
                                    {10, 12, 333, 200, 64, false, false, true}}) {
    KeptGrad grad = grad_of(each, "bf16", "bf16", "bf16", each.inputs(attention_grad_op, 1));
    Bytes got = grad.call.run();
    for (size_t o = 0; o < got.size(); ++o) {
      Tensor values = decoded(grad.call.output(o), got[o]);
      int64_t sample = values.count() / each.batch, others = 0, wrong = 0;
      for (int64_t i = 0; i < sample; ++i) wrong += values[i] != 0 ? 1 : 0;
      for (int64_t i = sample; i < values.count(); ++i) others += values[i] != 0 ? 1 : 0;
      EXPECT_EQ(wrong, 0) << "output " << o;
      EXPECT_GT(others, (values.count() - sample) / 3) << "output " << o;
    }
  }
}

// Tiles of keys of which none is seen, at the beginning, in the middle and at the end.
TEST_F(CudaKeptAttention, StepsOverHiddenKeys) {
  for (bool causal : {false, true}) {
    const AttentionCase each{9, 12, 900, 900, 64, causal, false, true};
    std::vector<Tensor> inputs = each.inputs(attention_grad_op, 1);
    Tensor& mask = inputs[3];
    for (int64_t i = 0; i < mask.count(); ++i) {
      int64_t sample = i / each.tk, key = i % each.tk;
      bool hidden = sample % 3 == 1 ? key < 300 : sample % 3 == 2 ? key > 500 : false;
      mask[i] = hidden || (key >= 384 && key < 640) ? 0 : 1;
    }
    for (double error : grad_errors(each, grad_of(each, "fp16", "fp16", "fp32", inputs))) {
      EXPECT_LE(error, 1e-3) << (causal ? "causal" : "all");
      EXPECT_GT(error, 0) << (causal ? "causal" : "all");
    }
  }
}

// Rounded once, from the same sums as fp32's.
TEST_F(CudaKeptAttention, StoresGradientsIn8Bits) {
  for (const char* format : {"e4m3", "e5m2"}) {
    for (const AttentionCase& each :
         {AttentionCase{10, 12, 200, 200, 64, true}, {13, 8, 333, 200, 48}}) {
      SCOPED_TRACE(each.label() + " in " + format);
      std::vector<Tensor> inputs = each.inputs(attention_grad_op, 1);
      KeptGrad wide = grad_of(each, "fp16", "fp16", "fp32", inputs);
      KeptGrad narrow = grad_of(each, "fp16", "fp16", format, inputs);
      Bytes of_wide = wide.call.run(), of_narrow = narrow.call.run();
      for (size_t o = 0; o < of_wide.size(); ++o) {
        const Cast cast = narrow.call.output(o).codec->cast();
        Tensor got = decoded(narrow.call.output(o), of_narrow[o]);
        Tensor want = decoded(wide.call.output(o), of_wide[o]);
        int64_t wrong = 0;
        for (int64_t i = 0; i < want.count(); ++i) wrong += got[i] != quantize(want[i], cast);
        EXPECT_EQ(wrong, 0) << "output " << o;
      }
    }
  }
}

// 8-bit numbers are exact in fp16, in which they are multiplied.
TEST_F(CudaKeptAttention, TakesInputsOf8Bits) {
  const AttentionCase each{10, 12, 200, 200, 64, true};
  std::vector<Tensor> inputs = each.inputs(attention_grad_op, 1);
  for (double error : grad_errors(each, grad_of(each, "e4m3", "fp16", "fp32", inputs))) {
    EXPECT_LE(error, 1e-3);
    EXPECT_GT(error, 0);
  }
}

TEST_F(CudaKeptAttention, TakesAndGivesPartsOfRows) {
  for (const AttentionCase& each :
       {AttentionCase{10, 12, 200, 200, 64, true}, {9, 12, 300, 300, 32, false, false, true}}) {
    SCOPED_TRACE(each.label());
    KeptGrad grad = grad_of(each, "fp16", "fp16", "fp16", each.inputs(attention_grad_op, 1));
    EXPECT_EQ(run_in_parts(grad.call, grad.attributes), grad.call.run());
  }
}

// The nodes of a lowered graph that the device is asked about.
TEST_F(CudaKeptAttention, IsAskedForWhereItIsFaster) {
  auto keeps = [](const AttentionCase& c) {
    Graph graph;
    std::vector<Value> inputs;
    for (const TensorType& type : c.types(attention_grad_op)) {
      inputs.push_back(graph.input(fmt::format("x{}", inputs.size()), type));
      graph.node(inputs.back().node).storage = {product_cast("fp16")};
    }
    std::vector<Value> grads = graph.append(attention_grad_op, inputs, c.attributes());
    return cuda_device().keeps_attention(graph, grads.front().node);
  };
  EXPECT_TRUE(keeps({32, 12, 1024, 1024, 64, true}));
  EXPECT_TRUE(keeps({16, 16, 512, 512, 64, false, false, true}));
  EXPECT_FALSE(keeps({4, 12, 1024, 1024, 64, true})) << "too few heads";
  EXPECT_FALSE(keeps({32, 12, 1024, 1024, 128, true})) << "heads too large";
  EXPECT_FALSE(keeps({256, 16, 128, 128, 64, false, false, true})) << "heads that fit a block";
  EXPECT_FALSE(keeps({32, 12, 100, 100, 64, true})) << "too short";
}

double microseconds(const OpDef& op, const AttentionCase& c, const char* format) {
  Attributes attributes = c.attributes();
  attributes.set(kKeepsResult, false);
  attributes.set(kResultFactor, 1.0);
  bool kept_grad = &op == &attention_kept_grad_op, is_grad = kept_grad || &op == &attention_grad_op;
  std::vector<TensorType> types =
      kept_grad ? KeptGrad::types(c) : c.types(is_grad ? attention_grad_op : attention_op);
  std::vector<Tensor> inputs;
  for (const TensorType& type : types) inputs.push_back(repeated(type));
  if (c.mask) {  // three quarters of the keys, as padding would have it
    Tensor& mask = inputs[3];
    for (int64_t i = 0; i < mask.count(); ++i) mask[i] = i % c.tk < c.tk * 3 / 4 ? 1 : 0;
  }
  Formats formats(inputs.size(), format);
  if (kept_grad) {
    for (double& log : inputs.back().data) log = std::log(static_cast<double>(c.tk)) + 0.5;
    formats.back() = "fp32";
  }
  KernelCall call(op, types, attributes,
                  {format, formats, {format, &op == &attention_kept_op ? "fp32" : format}}, inputs,
                  cuda_device());
  return microseconds_of(call, attributes);
}

// Prints only: a machine may be busy. Five products of the gradient, whatever is computed twice or
// masked.
TEST_F(CudaKeptAttention, TakesMicroseconds) {
  const AttentionCase cases[] = {{32, 12, 1024, 1024, 64, true},
                                 {16, 25, 1024, 1024, 64, true},
                                 {4, 25, 1024, 1024, 64, true},
                                 {32, 16, 512, 512, 64, false, false, true}};
  for (const AttentionCase& each : cases) {
    auto flops = static_cast<double>(10 * each.batch * each.heads * each.tq * each.tk * each.d);
    if (each.causal) flops /= 2;
    std::printf("%s\n", each.label().c_str());
    for (const char* format : {"fp16", "bf16"}) {
      if (&each != cases && format == std::string("bf16")) continue;  // tensors take long to fill
      double forward = microseconds(attention_op, each, format);
      double keeping = microseconds(attention_kept_op, each, format);
      double backward = microseconds(attention_grad_op, each, format);
      double kept = microseconds(attention_kept_grad_op, each, format);
      std::printf(
          "  %s: forward %.1f us, keeping %.1f us; backward %.1f us, from what was kept "
          "%.1f us, %.0f TFLOP/s\n",
          format, forward, keeping, backward, kept, flops / kept * 1e-6);
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace sigma1
