// Attention by tensor cores against the fp32 kernels of the same GPU, on the numbers that the
// format holds, and how long each takes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/simulate.h"
#include "sigma1/ops/attention.h"
#include "tests/conformance/kernel_call.h"

namespace sigma1 {
namespace {

struct AttentionCase {
  int64_t batch, heads, tq, tk, d;
  bool causal = false, relative = false, mask = false;

  Attributes attributes() const {
    return {{"heads", heads},
            {"causal", causal},
            {"multiplier", 0.9},
            {"has_relative", relative},
            {"has_mask", mask}};
  }
  std::vector<TensorType> types(const OpDef& op) const {
    TensorType queries{{batch, tq, heads * d}}, keys{{batch, tk, heads * d}};
    std::vector<TensorType> all{queries, keys, keys};
    if (relative) all.push_back({{tk, heads * d}});
    if (mask) all.push_back({{batch, tk}});
    if (&op == &attention_grad_op) all.push_back(queries);
    return all;
  }
  // The first sample's queries see nothing where there is a mask.
  std::vector<Tensor> inputs(const OpDef& op, double dy_scale) const {
    std::vector<Tensor> all;
    Attributes with = attributes();
    std::vector<TensorType> of = types(op);
    for (size_t i = 0; i < of.size(); ++i) {
      all.push_back(sample_input(op, {of, with}, i, false, 5));
    }
    if (mask) std::fill_n(all[relative ? 4 : 3].data.begin(), tk, 0.0);
    if (&op == &attention_grad_op) {
      for (double& x : all.back().data) x *= dy_scale;
    }
    return all;
  }
  std::string label() const {
    return fmt::format("batch {} heads {} queries {} keys {} d {}{}{}{}", batch, heads, tq, tk, d,
                       causal ? " causal" : "", relative ? " relative" : "", mask ? " mask" : "");
  }
};

constexpr AttentionCase kSmallModel{8, 2, 256, 256, 64, true, true};

double relative_error(const Tensor& got, const Tensor& want) {
  double off = 0, norm = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    off += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(off / norm);
}

class CudaAttention : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }

  // The norms of the outputs' errors over the outputs' norms, each of fp32 outputs.
  static std::vector<double> errors(const OpDef& op, const AttentionCase& c,
                                    const std::string& format, double dy_scale) {
    Attributes attributes = c.attributes();
    std::vector<TensorType> types = c.types(op);
    KernelCall call(op, types, attributes, {format, {format}, {"fp32"}}, c.inputs(op, dy_scale),
                    cuda_device());
    KernelCall exact(op, types, attributes, {"fp32", {"fp32"}, {"fp32"}}, call.inputs(),
                     cuda_device());
    std::vector<std::vector<std::byte>> got = call.run(), want = exact.run();
    EXPECT_EQ(got, call.run()) << "not the same bits again";
    std::vector<double> all;
    for (size_t o = 0; o < got.size(); ++o) {
      all.push_back(
          relative_error(decoded(call.output(o), got[o]), decoded(exact.output(o), want[o])));
    }
    return all;
  }

  // The factors of products are rounded to the format, once: 11 significant bits, or 8. Where
  // nothing was, the fp32 kernels have run.
  static void expect_close(const AttentionCase& c, const std::string& format, double dy_scale) {
    double bound = format == "fp16" ? 1e-3 : 8e-3;
    for (const OpDef* op : {&attention_op, &attention_grad_op}) {
      std::vector<double> all = errors(*op, c, format, dy_scale);
      for (size_t o = 0; o < all.size(); ++o) {
        EXPECT_LE(all[o], bound) << op->name << " output " << o;
        EXPECT_GT(all[o], 0) << op->name << " output " << o;
      }
    }
  }
};

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
    for (double error : errors(*op, {2, 2, 40, 40, 24, true, true}, "fp16", 1)) {
      EXPECT_EQ(error, 0) << op->name;
    }
  }
}

// Memory of one call that can be run often, without what surrounds a check.
class TimedCall {
 public:
  TimedCall(const OpDef& op, const AttentionCase& c, const std::string& format)
      : kernel_(cuda_device().find_kernel(op)), attributes_(c.attributes()) {
    std::vector<TensorType> types = c.types(op);
    std::vector<Tensor> values = c.inputs(op, 1);
    for (size_t i = 0; i < types.size(); ++i) {
      inputs_.push_back(buffer(types[i], format));
      std::vector<float> numbers(values[i].data.begin(), values[i].data.end());
      std::vector<std::byte> codes(numbers.size() * 4);
      if (const Codec* codec = inputs_[i].codec) {
        codec->encode(numbers.data(), codes.data(), values[i].count());
      } else {
        std::memcpy(codes.data(), numbers.data(), codes.size());
      }
      cuda_device().write(inputs_[i].data, codes.data(), static_cast<int64_t>(codes.size()));
    }
    for (const TensorType& type : op.infer({types, attributes_})) {
      outputs_.push_back(buffer(type, format));
    }
    factors_.assign(outputs_.size(), 1);
    int64_t room = kernel_.workspace ? kernel_.workspace(launch()) : 0;
    if (room > 0) workspace_ = memory(room);
  }

  // Of one call, in a graph of many.
  double microseconds() const {
    constexpr int kCalls = 20, kReplays = 50;
    kernel_.run(launch());
    cudaStream_t stream = cuda::stream();
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    for (int i = 0; i < kCalls; ++i) kernel_.run(launch());
    cuda::check(cudaStreamEndCapture(stream, &graph), "capture");
    cuda::check(cudaGraphInstantiate(&ready, graph, 0), "graph");
    cudaEvent_t begin, end;
    cuda::check(cudaEventCreate(&begin), "event");
    cuda::check(cudaEventCreate(&end), "event");
    for (int i = 0; i < 3; ++i) cuda::check(cudaGraphLaunch(ready, stream), "graph");
    cuda::check(cudaEventRecord(begin, stream), "event");
    for (int i = 0; i < kReplays; ++i) cuda::check(cudaGraphLaunch(ready, stream), "graph");
    cuda::check(cudaEventRecord(end, stream), "event");
    cuda::check(cudaEventSynchronize(end), "event");
    float milliseconds = 0;
    cuda::check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    return 1e3 * static_cast<double>(milliseconds) / (kCalls * kReplays);
  }

 private:
  std::span<std::byte> memory(int64_t bytes) {
    memory_.push_back(std::make_unique<DeviceBytes>(cuda_device(), bytes));
    return {memory_.back()->data(), static_cast<size_t>(bytes)};
  }
  Buffer buffer(const TensorType& type, const std::string& format) {
    Buffer made;
    made.shape = type.shape;
    made.codec = codec_of(format);
    made.data = memory(made.count() * 4).data();
    return made;
  }
  Launch launch() const { return {inputs_, outputs_, attributes_, factors_, {}, workspace_, 0}; }

  const Kernel& kernel_;
  Attributes attributes_;
  std::vector<std::unique_ptr<DeviceBytes>> memory_;
  std::vector<Buffer> inputs_, outputs_;
  std::vector<float> factors_;
  std::span<std::byte> workspace_;
};

// Prints only: a machine may be busy.
TEST_F(CudaAttention, TakesMicroseconds) {
  const AttentionCase cases[] = {kSmallModel, {2, 8, 2048, 2048, 64, true, true}};
  for (const AttentionCase& each : cases) {
    std::printf("%s\n", each.label().c_str());
    for (const char* format : {"fp32", "fp16", "bf16"}) {
      double forward = TimedCall(attention_op, each, format).microseconds();
      double backward = TimedCall(attention_grad_op, each, format).microseconds();
      std::printf("  %s: forward %.2f us, backward %.2f us\n", format, forward, backward);
    }
  }
}

}  // namespace
}  // namespace sigma1
