// The gradients of attention with relative positions by clusters of blocks: against the reference,
// beside the kernels that a device has unasked, and how long both take.
#include <cstdio>

#include "tests/gpu/attention_case.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

using Bytes = std::vector<std::vector<std::byte>>;

constexpr AttentionCase kSmallModel{8, 2, 256, 256, 64, true, true};

const Device& clusters() { return cuda_device(0, {.attention_clusters = true}); }

struct GradCall {
  Attributes attributes;
  KernelCall call;

  GradCall(const AttentionCase& c, const std::string& format, const Device& device,
           double dy_scale = 1, const std::string& output = "fp32")
      : attributes(c.attributes()),
        call(attention_grad_op, c.types(attention_grad_op), attributes,
             {format, {format}, {output}, true}, c.inputs(attention_grad_op, dy_scale), device) {}

  Bytes run() const { return call.run(); }
  Tensor numbers(size_t output, const Bytes& of) const {
    return decoded(call.output(output), of[output]);
  }
};

class CudaAttentionClusters : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }

  // The factors of products are rounded to the format, once: 11 significant bits, or 8.
  static double bound(const std::string& format) { return format == "fp16" ? 1e-3 : 8e-3; }

  static void expect_reference(const AttentionCase& c, const std::string& format,
                               double dy_scale = 1) {
    SCOPED_TRACE(fmt::format("{} in {}, dy times {}", c.label(), format, dy_scale));
    GradCall made(c, format, clusters(), dy_scale);
    std::vector<const Tensor*> inputs;
    for (const Tensor& input : made.call.inputs()) inputs.push_back(&input);
    std::vector<Tensor> want;
    for (size_t o = 0; o < made.call.output_count(); ++o) {
      want.emplace_back(made.call.output(o).shape);
    }
    attention_grad_op.evaluate({inputs, want, made.attributes, KernelCall::kStep});
    Bytes got = made.run();
    EXPECT_EQ(got, made.run()) << "not the same bits again";
    for (size_t o = 0; o < got.size(); ++o) {
      EXPECT_LE(relative_error(made.numbers(o, got), want[o]), bound(format)) << "output " << o;
    }
  }
};

// Of one cluster's block, two, four and eight, tiles that are full and that are not, and a mask
// that leaves a sample's queries nothing to see.
TEST_F(CudaAttentionClusters, AreTheReference) {
  const AttentionCase cases[] = {kSmallModel,
                                 {2, 1, 2, 2, 16, true, true},
                                 {3, 2, 16, 16, 64, true, true},
                                 {2, 3, 31, 31, 32, true, true, true},
                                 {2, 3, 33, 33, 48, true, true},
                                 {1, 2, 64, 64, 64, true, true},
                                 {2, 3, 100, 100, 48, true, true, true},
                                 {5, 1, 128, 128, 16, true, true},
                                 {1, 4, 129, 129, 64, true, true},
                                 {2, 2, 200, 200, 32, true, true, true},
                                 {3, 1, 241, 241, 64, true, true},
                                 {2, 5, 255, 255, 64, true, true, true}};
  for (const AttentionCase& each : cases) {
    for (const char* format : {"fp16", "bf16"}) expect_reference(each, format);
  }
}

TEST_F(CudaAttentionClusters, TakeGradientsOfAnyScale) {
  for (double scale : {1e-6, 1e-3, 1e3, 1e4}) expect_reference(kSmallModel, "fp16", scale);
  for (double scale : {1e-12, 1e-7, 1e4, 1e9}) {
    expect_reference({2, 3, 100, 100, 48, true, true, true}, "bf16", scale);
  }
}

// Sums are in another order than those of the kernels that a device has unasked, so that other bits
// say which have run.
TEST_F(CudaAttentionClusters, AreWhatOtherKernelsComputeAndRunWhenAsked) {
  for (const char* format : {"fp16", "bf16"}) {
    GradCall asked(kSmallModel, format, clusters()), unasked(kSmallModel, format, cuda_device());
    Bytes got = asked.run(), other = unasked.run();
    for (size_t o = 0; o < got.size(); ++o) {
      EXPECT_NE(got[o], other[o]) << "output " << o;
      EXPECT_LE(relative_error(asked.numbers(o, got), unasked.numbers(o, other)), bound(format))
          << "output " << o;
    }
  }
}

TEST_F(CudaAttentionClusters, LeaveWhatIsTooLargeToOtherKernels) {
  const std::pair<AttentionCase, std::string> cases[] = {
      {{2, 2, 257, 257, 64, true, true}, "fp16"},
      {{2, 2, 100, 100, 80, true, true}, "fp16"},
      {{2, 2, 100, 100, 18, true, true}, "fp16"},
      {{2, 2, 100, 100, 64, true, false}, "fp16"},
      {{2, 2, 100, 100, 64, true, true}, "fp32"}};
  for (const auto& [each, format] : cases) {
    SCOPED_TRACE(each.label());
    EXPECT_EQ(GradCall(each, format, clusters()).run(),
              GradCall(each, format, cuda_device()).run());
  }
}

// What one block has not yet written for another would show now and then.
TEST_F(CudaAttentionClusters, HaveTheSameBitsEachTime) {
  GradCall call(kSmallModel, "fp16", clusters());
  Bytes first = call.run();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(first, call.run()) << "run " << i;
}

TEST_F(CudaAttentionClusters, RoundOutputsOnce) {
  for (const char* format : {"fp16", "bf16", "e5m2"}) {
    AttentionCase small{2, 2, 100, 100, 48, true, true};
    GradCall wide(small, "fp16", clusters()), narrow(small, "fp16", clusters(), 1, format);
    Bytes exact = wide.run(), rounded = narrow.run();
    for (size_t o = 0; o < exact.size(); ++o) {
      EXPECT_EQ(rounded[o], encoded(narrow.call.output(o), wide.numbers(o, exact)))
          << format << ", output " << o;
    }
  }
}

// Prints only: a machine may be busy. Sixteen clusters are as many as a large GPU may have at once;
// a jump before or behind them says how many it has.
TEST_F(CudaAttentionClusters, TakeMicroseconds) {
  for (int64_t batch : {1, 4, 7, 8, 9, 16}) {
    AttentionCase each = kSmallModel;
    each.batch = batch;
    std::printf("%s\n", each.label().c_str());
    for (const char* format : {"fp16", "bf16"}) {
      GradCall unasked(each, format, cuda_device(), 1, format);
      GradCall asked(each, format, clusters(), 1, format);
      double before = microseconds_of(unasked.call, unasked.attributes);
      double after = microseconds_of(asked.call, asked.attributes);
      std::printf("  %s: backward %.2f us, by clusters %.2f us\n", format, before, after);
    }
  }
}

}  // namespace
}  // namespace sigma1
