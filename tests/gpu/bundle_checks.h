// What tests of bundles share: nodes with their tensors on the GPU, how near sums must be to what
// they should be, and how long a bundle takes.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/ops/update.h"
#include "tests/conformance/kernel_call.h"

namespace sigma1 {

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
  Formats inputs, outputs;  // the last serves all that follow
  Rounding rounding = Rounding::nearest_even;
};

class GpuNode {
 public:
  explicit GpuNode(NodeSpec spec, uint64_t seed = 1) : spec_(std::move(spec)) {
    auto format = [](const Formats& formats, size_t i) {
      return formats[std::min(i, formats.size() - 1)];
    };
    std::vector<TensorType> types;
    for (const Shape& shape : spec_.shapes) types.push_back({shape});
    for (size_t i = 0; i < types.size(); ++i) {
      inputs_.emplace_back(types[i].shape, format(spec_.inputs, i), Rounding::nearest_even);
      input_buffers_.push_back(inputs_.back().buffer());
      RandomStream random(seed, "input", i);
      inputs_.back().fill([&](size_t at) { return number(random, i, at); });
    }
    for (const TensorType& type : spec_.op->infer({types, spec_.attributes})) {
      size_t o = outputs_.size();
      outputs_.emplace_back(type.shape, format(spec_.outputs, o), spec_.rounding);
      output_buffers_.push_back(outputs_.back().buffer());
      factors_.push_back(0.75f + 0.125f * static_cast<float>(o));
      randoms_.emplace_back(seed, "output", o);
    }
  }
  GpuNode(const GpuNode&) = delete;
  GpuNode& operator=(const GpuNode&) = delete;

  const NodeSpec& spec() const { return spec_; }
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
  Tensor reference(bool of_magnitudes = false) const {
    std::deque<Tensor> stored;
    std::vector<const Tensor*> pointers;
    for (const DeviceTensor& input : inputs_) {
      stored.push_back(input.numbers());
      if (of_magnitudes) {
        for (double& x : stored.back().data) x = std::abs(x);
      }
      pointers.push_back(&stored.back());
    }
    std::vector<Tensor> results{Tensor(outputs_.front().buffer().shape)};
    spec_.op->evaluate({pointers, results, spec_.attributes, 3});
    for (double& x : results[0].data) x *= static_cast<double>(factors_[0]);
    return results[0];
  }

 private:
  double number(const RandomStream& random, size_t input, size_t at) const {
    double x = random.normal(at);
    if (spec_.op != &adam_step_op || input < 3) return x;
    return input == 3 ? x * x : input == 4 ? 0.01 : 7;  // v, rate, step
  }

  NodeSpec spec_;
  std::deque<DeviceTensor> inputs_, outputs_;
  std::vector<Buffer> input_buffers_, output_buffers_;
  std::vector<float> factors_;
  std::vector<RandomStream> randoms_;
};

using Bytes = std::vector<std::vector<std::byte>>;

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
