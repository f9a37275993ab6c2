// What tests of bundles share: nodes with their tensors on the GPU, how near sums must be to what
// they should be, and how long a bundle takes.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>

#include "sigma1/backend/cuda/bundle.cuh"
#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/ops/update.h"
#include "tests/conformance/kernel_call.h"

namespace sigma1 {

using cuda::Bundle;
using cuda::BundleKind;
using Formats = std::vector<std::string>;

inline int64_t byte_count(const Buffer& buffer) {
  return buffer.count() * (buffer.codec ? buffer.codec->bytes() : 4);
}

// A tensor on the GPU, unwritten at first.
class DeviceTensor {
 public:
  DeviceTensor(const Shape& shape, const std::string& format, Rounding rounding) {
    buffer_.shape = shape;
    buffer_.codec = codec_of(format, rounding);
    memory_ = std::make_unique<Memory>(cuda_device(), byte_count(buffer_));
    buffer_.data = memory_->data();
    buffer_.device = &cuda_device();
  }

  const Buffer& buffer() const { return buffer_; }
  Tensor numbers() const { return decoded(buffer_, memory_->bytes()); }
  std::vector<std::byte> bytes() const { return memory_->bytes(); }
  bool is_intact() const { return memory_->is_intact(); }
  void poison() const {
    memory_->write(
        std::vector<std::byte>(static_cast<size_t>(byte_count(buffer_)), std::byte{255}));
  }
  template <class Number>
  void fill(Number number) const {
    std::vector<float> values(static_cast<size_t>(buffer_.count()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(number(i));
    std::vector<std::byte> codes(static_cast<size_t>(byte_count(buffer_)));
    if (buffer_.codec) {
      buffer_.codec->encode(values.data(), codes.data(), buffer_.count());
    } else {
      std::memcpy(codes.data(), values.data(), codes.size());
    }
    memory_->write(codes);
  }

 private:
  Buffer buffer_;
  std::unique_ptr<Memory> memory_;
};

struct NodeSpec {
  const OpDef* op;
  std::vector<Shape> shapes;
  Attributes attributes;
  Formats inputs, outputs;  // the last serves all that follow, here and below
  std::vector<Rounding> roundings = {Rounding::nearest_even};  // of outputs
};

class GpuNode {
 public:
  explicit GpuNode(NodeSpec spec, uint64_t seed = 1) : spec_(std::move(spec)) {
    auto of = [](const auto& list, size_t i) { return list[std::min(i, list.size() - 1)]; };
    std::vector<TensorType> types;
    for (const Shape& shape : spec_.shapes) types.push_back({shape});
    for (size_t i = 0; i < types.size(); ++i) {
      inputs_.emplace_back(types[i].shape, of(spec_.inputs, i), Rounding::nearest_even);
      input_buffers_.push_back(inputs_.back().buffer());
      RandomStream random(seed, "input", i);
      inputs_.back().fill([&](size_t at) { return number(random, i, at); });
    }
    for (const TensorType& type : spec_.op->infer({types, spec_.attributes})) {
      size_t o = outputs_.size();
      outputs_.emplace_back(type.shape, of(spec_.outputs, o), of(spec_.roundings, o));
      output_buffers_.push_back(outputs_.back().buffer());
      factors_.push_back(0.75f + 0.125f * static_cast<float>(o));
      randoms_.emplace_back(seed, "output", o);
    }
  }
  GpuNode(const GpuNode&) = delete;
  GpuNode& operator=(const GpuNode&) = delete;

  const NodeSpec& spec() const { return spec_; }
  const std::deque<DeviceTensor>& inputs() const { return inputs_; }
  const std::deque<DeviceTensor>& outputs() const { return outputs_; }
  Launch launch(std::span<std::byte> workspace = {}) const {
    return {input_buffers_, output_buffers_, spec_.attributes, factors_, randoms_, workspace, 3};
  }
  ChainStep step() const { return {spec_.op, launch(), {}}; }

  void run_alone() const {
    const Kernel& kernel = cuda_device().find_kernel(*spec_.op);
    int64_t room = kernel.workspace ? kernel.workspace(launch()) : 0;
    Memory workspace(cuda_device(), room);
    kernel.run(launch({workspace.data(), static_cast<size_t>(room)}));
  }
  // What the op computes in double, of the inputs as they are stored or of their magnitudes.
  std::vector<Tensor> references(bool of_magnitudes = false) const {
    std::deque<Tensor> stored;
    std::vector<const Tensor*> pointers;
    for (const DeviceTensor& input : inputs_) {
      stored.push_back(input.numbers());
      if (of_magnitudes) {
        for (double& x : stored.back().data) x = std::abs(x);
      }
      pointers.push_back(&stored.back());
    }
    std::vector<Tensor> results;
    for (const DeviceTensor& output : outputs_) results.emplace_back(output.buffer().shape);
    spec_.op->evaluate({pointers, results, spec_.attributes, 3});
    for (size_t o = 0; o < results.size(); ++o) {
      for (double& x : results[o].data) x *= static_cast<double>(factors_[o]);
    }
    return results;
  }
  Tensor reference(bool of_magnitudes = false) const { return references(of_magnitudes).front(); }

 private:
  double number(const RandomStream& random, size_t input, size_t at) const {
    double x = random.normal(at);
    bool is_step = spec_.op == &adam_step_op || spec_.op == &lamb_step_op;
    if (!is_step || input < 3) return x;
    return input == 3 ? x * x : input == 4 ? 0.01 : 7;  // v, rate, step
  }

  NodeSpec spec_;
  std::deque<DeviceTensor> inputs_, outputs_;
  std::vector<Buffer> input_buffers_, output_buffers_;
  std::vector<float> factors_;
  std::vector<RandomStream> randoms_;
};

inline NodeSpec adam_spec(const Shape& shape, Formats inputs, Formats outputs,
                          Rounding rounding = Rounding::nearest_even, bool decoupled = true) {
  return {&adam_step_op,
          {shape, shape, shape, shape, {}, {}},
          {{"beta1", 0.9},
           {"beta2", 0.98},
           {"epsilon", 1e-8},
           {"weight_decay", 0.1},
           {"decoupled", decoupled},
           {"gradient_scale", 0.5},
           {"rate_scale", 0.75}},
          std::move(inputs),
          std::move(outputs),
          {rounding}};
}

using Bytes = std::vector<std::vector<std::byte>>;

inline BundleKind kind_of(const GpuNode& node) {
  return cuda::bundle_kind(*node.spec().op, node.launch());
}

inline Bytes outputs_of(const std::deque<GpuNode>& nodes) {
  Bytes all;
  for (const GpuNode& node : nodes) {
    for (const DeviceTensor& output : node.outputs()) {
      EXPECT_TRUE(output.is_intact());
      all.push_back(output.bytes());
      output.poison();
    }
  }
  return all;
}

inline std::vector<ChainStep> steps_of(const std::deque<GpuNode>& nodes, BundleKind kind) {
  std::vector<ChainStep> steps;
  for (const GpuNode& node : nodes) {
    EXPECT_EQ(kind_of(node), kind);
    steps.push_back(node.step());
  }
  return steps;
}

// The bits of each node's own kernel, at every run.
inline void expect_as_alone(const std::deque<GpuNode>& nodes, BundleKind kind) {
  for (const GpuNode& node : nodes) node.run_alone();
  Bytes alone = outputs_of(nodes);
  Bundle bundle(steps_of(nodes, kind));
  for (int run = 0; run < 2; ++run) {
    bundle.run(3);
    EXPECT_EQ(outputs_of(nodes), alone) << "run " << run;
  }
}

// Half of the distance to the next number of a format, relative to the number.
inline double rounding_of(const Buffer& buffer) {
  return std::ldexp(1, -(buffer.codec ? buffer.codec->cast().format.mantissa_bits : 23) - 1);
}

// `magnitude`: of all terms of a sum in fp32.
inline void expect_near(const Tensor& got, const Tensor& want, const Tensor& magnitude,
                        double rounding, const std::string& what) {
  for (int64_t i = 0; i < want.count(); ++i) {
    double allowed = rounding * std::abs(want[i]) + 1e-6 * magnitude[i];
    ASSERT_LE(std::abs(got[i] - want[i]), allowed) << what << " at " << i << ": " << want[i];
  }
}

// Microseconds of a run, in a graph of many.
inline double time_of(Chain& chain) {
  constexpr int kRuns = 20, kLaunches = 10;
  cudaStream_t stream = cuda::stream();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < kRuns; ++i) chain.run(3);
  cuda::check(cudaStreamEndCapture(stream, &graph), "end of capture");
  cuda::check(cudaGraphInstantiate(&executable, graph, 0), "graph");
  cudaEvent_t begin = nullptr, end = nullptr;
  cuda::check(cudaEventCreate(&begin), "event");
  cuda::check(cudaEventCreate(&end), "event");
  cuda::check(cudaGraphLaunch(executable, stream), "warm up");
  cuda::check(cudaEventRecord(begin, stream), "begin");
  for (int i = 0; i < kLaunches; ++i) cuda::check(cudaGraphLaunch(executable, stream), "launch");
  cuda::check(cudaEventRecord(end, stream), "end");
  cuda::check(cudaEventSynchronize(end), "waiting");
  float milliseconds = 0;
  cuda::check(cudaEventElapsedTime(&milliseconds, begin, end), "time");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  return 1000.0 * static_cast<double>(milliseconds) / (kRuns * kLaunches);
}

inline void print_time(const char* what, Chain& chain) {
  std::printf("%s: %.2f us\n", what, time_of(chain));
}

class CudaBundles : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

}  // namespace sigma1
