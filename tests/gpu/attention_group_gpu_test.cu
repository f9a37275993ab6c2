// The gradients of attention with relative positions by groups of blocks: against the reference,
// where they run, again and again, beside each other, and how long they take.
#include <cstdio>
#include <deque>
#include <thread>

#include "sigma1/backend/cuda/kernel.cuh"
#include "tests/gpu/attention_case.h"
#include "tests/gpu/placed_call.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

using Bytes = std::vector<std::vector<std::byte>>;
using cuda::check;

constexpr AttentionCase kSmallModel{8, 2, 256, 256, 64, true, true};

AttentionCase small_model(int64_t batch) {
  AttentionCase made = kSmallModel;
  made.batch = batch;
  return made;
}

struct GradCall {
  Attributes attributes;
  KernelCall call;

  GradCall(const AttentionCase& c, const std::string& format, double dy_scale = 1,
           const std::string& output = "fp32")
      : attributes(c.attributes()),
        call(attention_grad_op, c.types(attention_grad_op), attributes,
             {format, {format}, {output}, true}, c.inputs(attention_grad_op, dy_scale),
             cuda_device()) {}

  Bytes run() const { return call.run(); }
  Tensor numbers(size_t output, const Bytes& of) const {
    return decoded(call.output(output), of[output]);
  }
};

// The kernels of a call, and how many of them have all blocks at the same time.
struct Kernels {
  int all = 0, together = 0;

  explicit Kernels(const GradCall& of) {
    PlacedCall placed(of.call, of.attributes);
    placed.run();  // what is set up on the first call
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(cuda::stream(), cudaStreamCaptureModeThreadLocal), "capture");
    placed.run();
    check(cudaStreamEndCapture(cuda::stream(), &graph), "end of capture");
    size_t count = 0;
    check(cudaGraphGetNodes(graph, nullptr, &count), "nodes");
    std::vector<cudaGraphNode_t> nodes(count);
    check(cudaGraphGetNodes(graph, nodes.data(), &count), "nodes");
    for (cudaGraphNode_t node : nodes) {
      cudaGraphNodeType type{};
      check(cudaGraphNodeGetType(node, &type), "node");
      if (type != cudaGraphNodeTypeKernel) continue;
      cudaLaunchAttributeValue value{};
      check(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributeCooperative, &value), "node");
      ++all;
      together += value.cooperative;
    }
    check(cudaGraphDestroy(graph), "graph");
  }
};

class CudaAttentionGroups : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }

  // The factors of products are rounded to the format, once: 11 significant bits, or 8.
  static double bound(const std::string& format) { return format == "bf16" ? 8e-3 : 1e-3; }

  static void expect_reference(const AttentionCase& c, const std::string& format,
                               double dy_scale = 1) {
    SCOPED_TRACE(fmt::format("{} in {}, dy times {}", c.label(), format, dy_scale));
    GradCall made(c, format, dy_scale);
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

// Of one block a group up to eight, tiles that are full and that are not, and a mask that leaves a
// sample's queries nothing to see; more short heads than a large GPU has blocks at once.
TEST_F(CudaAttentionGroups, AreTheReference) {
  const AttentionCase cases[] = {kSmallModel,
                                 {50, 6, 20, 20, 16, true, true},
                                 {2, 1, 2, 2, 16, true, true},
                                 {3, 2, 16, 16, 64, true, true},
                                 {2, 3, 31, 31, 32, true, true, true},
                                 {2, 3, 33, 33, 48, true, true},
                                 {1, 2, 64, 64, 64, true, true},
                                 {2, 3, 100, 100, 48, true, true, true},
                                 {2, 1, 65, 65, 64, true, true, true},
                                 {5, 1, 128, 128, 16, true, true},
                                 {1, 4, 129, 129, 64, true, true},
                                 {3, 2, 170, 170, 64, true, true},
                                 {2, 2, 200, 200, 32, true, true, true},
                                 {3, 1, 241, 241, 64, true, true},
                                 {2, 5, 255, 255, 64, true, true, true}};
  for (const AttentionCase& each : cases) {
    for (const char* format : {"fp16", "bf16"}) expect_reference(each, format);
  }
}

TEST_F(CudaAttentionGroups, TakeGradientsOfAnyScale) {
  for (double scale : {1e-6, 1e-3, 1e3, 1e4}) expect_reference(kSmallModel, "fp16", scale);
  for (double scale : {1e-12, 1e-7, 1e4, 1e9}) {
    expect_reference({2, 3, 100, 100, 48, true, true, true}, "bf16", scale);
  }
}

// Sixteen groups of eight blocks are as many as a large GPU has at once; of more heads a group
// takes one after another.
TEST_F(CudaAttentionGroups, TakeAnyNumberOfHeads) {
  for (int64_t batch : {1, 4, 7, 9, 16}) expect_reference(small_model(batch), "fp16");
  expect_reference({27, 2, 241, 241, 32, true, true, true}, "bf16");
}

// Sums are in another order than those of the kernels that need no state, so that other bits say
// which have run.
TEST_F(CudaAttentionGroups, AreWhatOtherKernelsCompute) {
  for (const char* format : {"fp16", "bf16"}) {
    GradCall made(kSmallModel, format);
    PlacedCall groups(made.call, made.attributes), others(made.call, made.attributes, false);
    groups.run();
    others.run();
    Bytes got = groups.outputs(), other = others.outputs();
    for (size_t o = 0; o < got.size(); ++o) {
      EXPECT_NE(got[o], other[o]) << "output " << o;
      EXPECT_LE(relative_error(made.numbers(o, got), made.numbers(o, other)), bound(format))
          << "output " << o;
    }
  }
}

TEST_F(CudaAttentionGroups, RunWhereTheyFit) {
  for (const char* format : {"fp16", "bf16", "e4m3", "e5m2"}) {
    for (const AttentionCase& each : {kSmallModel, small_model(16), small_model(1)}) {
      EXPECT_EQ(Kernels(GradCall(each, format)).together, 1) << each.label() << " " << format;
    }
  }
  const std::pair<AttentionCase, std::string> others[] = {
      {{2, 2, 257, 257, 64, true, true}, "fp16"},
      {{2, 2, 100, 100, 80, true, true}, "fp16"},
      {{2, 2, 100, 100, 18, true, true}, "fp16"},
      {{2, 2, 100, 100, 64, true, false}, "fp16"},
      {{2, 2, 100, 100, 64, true, true}, "fp32"}};
  for (const auto& [each, format] : others) {
    SCOPED_TRACE(each.label());
    Kernels kernels(GradCall(each, format));
    EXPECT_EQ(kernels.together, 0);
    EXPECT_GT(kernels.all, 0);
    expect_reference(each, format);
  }
}

// What one block has not yet written for another would show now and then.
TEST_F(CudaAttentionGroups, HaveTheSameBitsEachTime) {
  GradCall call(kSmallModel, "fp16");
  Bytes first = call.run();
  for (int i = 0; i < 100; ++i) ASSERT_EQ(first, call.run()) << "run " << i;
}

TEST_F(CudaAttentionGroups, RoundOutputsOnce) {
  for (const char* format : {"fp16", "bf16", "e5m2"}) {
    AttentionCase small{2, 2, 100, 100, 48, true, true};
    GradCall wide(small, "fp16"), narrow(small, "fp16", 1, format);
    Bytes exact = wide.run(), rounded = narrow.run();
    for (size_t o = 0; o < exact.size(); ++o) {
      EXPECT_EQ(rounded[o], encoded(narrow.call.output(o), wide.numbers(o, exact)))
          << format << ", output " << o;
    }
  }
}

// As steps of a program, whose other kernels use the same workspace.
TEST_F(CudaAttentionGroups, AreRecordedAndRunAgainAndAgain) {
  for (int64_t batch : {1, 8, 16}) {
    GradCall made(small_model(batch), "fp16");
    PlacedCall placed(made.call, made.attributes);
    std::unique_ptr<Recording> twice = cuda_device().record([&] {
      for (int value : {0xFF, 0x55}) {
        std::span<std::byte> workspace = placed.workspace();
        check(cudaMemsetAsync(workspace.data(), value, workspace.size(), cuda::stream()), "memset");
        placed.run();
      }
    });
    twice->run();
    Bytes first = placed.outputs();
    EXPECT_EQ(first, made.run());
    for (int i = 0; i < 20; ++i) {
      for (int n = 0; n < 100; ++n) twice->run();
      ASSERT_EQ(first, placed.outputs()) << "batch " << batch << ", replays " << i;
    }
  }
}

// Each thread has a stream; together they have more blocks than run at once.
TEST_F(CudaAttentionGroups, RunBesideEachOther) {
  const AttentionCase cases[] = {
      kSmallModel, small_model(16), {3, 3, 100, 100, 48, true, true}, kSmallModel};
  std::deque<GradCall> calls;
  std::vector<Bytes> want, got(std::size(cases));
  for (const AttentionCase& each : cases) want.push_back(calls.emplace_back(each, "fp16").run());
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < calls.size(); ++i) {
      threads.emplace_back([&, i] {
        PlacedCall placed(calls[i].call, calls[i].attributes);
        std::unique_ptr<Recording> run = cuda_device().record([&] { placed.run(); });
        for (int n = 0; n < 2000; ++n) run->run();
        got[i] = placed.outputs();
      });
    }
  }
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(got[i], want[i]) << cases[i].label();
}

// Prints only: a machine may be busy. A jump before or behind sixteen groups says how many run at
// once; then many heads of short sequences.
TEST_F(CudaAttentionGroups, TakeMicroseconds) {
  std::vector<AttentionCase> cases;
  for (int64_t batch : {1, 4, 7, 8, 9, 16, 32}) cases.push_back(small_model(batch));
  for (int64_t time : {128, 64, 32}) cases.push_back({4096 / time, 4, time, time, 64, true, true});
  for (const AttentionCase& each : cases) {
    std::printf("%s\n", each.label().c_str());
    for (const char* format : {"fp16", "bf16"}) {
      GradCall made(each, format, 1, format);
      PlacedCall groups(made.call, made.attributes), others(made.call, made.attributes, false);
      double after = microseconds_of(20, [&] { groups.run(); });
      double before = microseconds_of(20, [&] { others.run(); });
      std::printf("  %s: backward %.2f us, by other kernels %.2f us\n", format, after, before);
    }
  }
}

}  // namespace
}  // namespace sigma1
