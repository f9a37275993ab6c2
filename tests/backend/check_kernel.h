// Runs one CPU kernel by itself and holds it to its op's reference: for shapes larger than the
// conformance cases, which cross the borders of a kernel's blocks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "sigma1/backend/cpu/kernel.h"
#include "sigma1/backend/reference.h"
#include "sigma1/base/parallel.h"

namespace sigma1::cpu {

struct KernelCall {
  const Kernel* kernel;
  std::vector<Tensor> inputs;
  Attributes attributes;
  const Codec* codec = nullptr;  // of every buffer; null: fp32

  std::vector<TensorType> output_types() const {
    std::vector<TensorType> types;
    for (const Tensor& input : inputs) types.push_back({input.shape});
    return kernel->op->infer({types, attributes});
  }
  // None is 1, so that one that is left out shows; no two are the same.
  static float factor(size_t output) { return 0.75F + 0.125F * static_cast<float>(output); }
};

// Bytes on a cache line, as kernels expect them.
class LineMemory {
 public:
  explicit LineMemory(int64_t bytes) : lines_(static_cast<size_t>(bytes) / sizeof(Line) + 1) {
    std::memset(lines_.data(), 0xFF, lines_.size() * sizeof(Line));  // NaN: unwritten shows
  }
  std::byte* data() { return lines_.front().bytes; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

inline int64_t byte_count(const KernelCall& call, const Shape& shape) {
  return element_count(shape) * (call.codec ? call.codec->bytes() : 4);
}

// The outputs as fp32.
inline std::vector<std::vector<float>> run(const KernelCall& call) {
  std::vector<LineMemory> memory;
  std::vector<Buffer> inputs, outputs;
  auto make = [&](std::vector<Buffer>& buffers, const Shape& shape) {
    memory.emplace_back(byte_count(call, shape));
    return buffers.emplace_back(Buffer{memory.back().data(), call.codec, shape});
  };
  for (const Tensor& input : call.inputs) {
    std::vector<float> values(input.data.begin(), input.data.end());
    store(make(inputs, input.shape), 0, input.count(), values.data());
  }
  std::vector<float> factors;
  for (const TensorType& type : call.output_types()) {
    make(outputs, type.shape);
    factors.push_back(KernelCall::factor(factors.size()));
  }
  std::vector<RandomStream> randoms(outputs.size());
  Launch launch{inputs, outputs, call.attributes, factors, randoms, {}};
  int64_t room = call.kernel->workspace ? call.kernel->workspace(launch) : 0;
  LineMemory workspace(room);
  launch.workspace = {workspace.data(), static_cast<size_t>(room)};
  call.kernel->run(launch);
  std::vector<std::vector<float>> results;
  for (const Buffer& output : outputs) {
    std::vector<float>& result = results.emplace_back(static_cast<size_t>(output.count()));
    std::copy_n(load(output, 0, output.count(), result.data()), output.count(), result.data());
  }
  return results;
}

inline std::vector<Tensor> reference(const KernelCall& call) {
  std::vector<Tensor> inputs = call.inputs, outputs;
  std::vector<const Tensor*> pointers;
  for (Tensor& input : inputs) {
    for (double& x : input.data) {
      x = static_cast<float>(x);  // first, as run() does: rounded twice is not rounded once
      if (call.codec) x = quantize(x, call.codec->cast());
    }
    pointers.push_back(&input);
  }
  for (const TensorType& type : call.output_types()) outputs.emplace_back(type.shape);
  call.kernel->op->evaluate({pointers, outputs, call.attributes});
  return outputs;
}

// Within some roundings of fp32 at the size of the largest result, and the one of the format.
inline void expect_reference(const KernelCall& call) {
  std::vector<Tensor> want = reference(call);
  std::vector<std::vector<float>> got = run(call);
  for (size_t o = 0; o < want.size(); ++o) {
    double largest = 0, factor = KernelCall::factor(o);
    for (double x : want[o].data) largest = std::max(largest, std::fabs(factor * x));
    ASSERT_GT(largest, 0) << "output " << o;
    double rounding = call.codec ? std::ldexp(1, -1 - call.codec->cast().format.mantissa_bits) : 0;
    for (size_t i = 0; i < got[o].size(); ++i) {
      double exact = factor * want[o].data[i];
      double slack = std::ldexp(64 * largest, -24) + rounding * std::fabs(exact);
      ASSERT_NEAR(got[o][i], exact, slack) << "output " << o << ", element " << i;
    }
  }
}

inline void expect_same_on_any_threads(const KernelCall& call) {
  set_thread_count(1);
  std::vector<std::vector<float>> alone = run(call);
  for (int threads : {2, 3, 7}) {
    set_thread_count(threads);
    EXPECT_TRUE(alone == run(call)) << threads << " threads";
  }
  set_thread_count(0);
}

inline const Codec& fp16_codec() {
  static const Codec codec(Cast{find_format("fp16").format});
  return codec;
}

// One normal tensor per shape.
inline std::vector<Tensor> normal_tensors(const std::vector<Shape>& shapes) {
  std::vector<Tensor> tensors;
  for (const Shape& shape : shapes) {
    tensors.push_back(normal_tensor(shape, std::to_string(tensors.size()), 3));
  }
  return tensors;
}

}  // namespace sigma1::cpu
