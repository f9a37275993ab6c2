// Ops that move much memory, at sizes to choose, for tests of their results and of their speed.
#pragma once

#include "sigma1/ops/embedding.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/softmax.h"
#include "tests/conformance/kernel_call.h"

namespace sigma1 {

using Axes = std::vector<int64_t>;

struct Spec {
  const OpDef* op;
  std::vector<TensorType> inputs;
  Attributes attributes;
};

inline Attributes with_eps() { return {{"eps", 0.01}}; }
inline Attributes with_mean() { return {{"reduction", std::string("mean")}}; }

inline Spec norm(const OpDef& op, int64_t rows, int64_t n, bool has_c) {
  Spec spec{&op, {{{rows, n}}, {{n}}}, with_eps()};
  if (has_c) spec.inputs.push_back({{n}});
  return spec;
}
inline Spec norm_grad(const OpDef& op, int64_t rows, int64_t n) {
  return {&op, {{{rows, n}}, {{n}}, {{rows, n}}}, with_eps()};
}
inline Spec weight_grad(const OpDef& op, int64_t rows, int64_t n, bool has_bias) {
  return {&op, {{{rows, n}}, {{rows, n}}}, {{"eps", 0.01}, {"has_bias", has_bias}}};
}
inline Spec column_sum(const OpDef& op, Shape shape) {
  Axes axes(shape.size() - 1);
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  return {&op, {{std::move(shape)}}, {{"axes", axes}}};
}
inline Spec loss(const OpDef& op, int64_t rows, int64_t n) {
  return {&op, {{{rows, n}}, {{rows}, Kind::index}}, with_mean()};
}
inline Spec picks_grad(int64_t picks, int64_t rows, int64_t d) {
  return {&embedding_grad_op, {{{picks, d}}, {{picks}, Kind::index}}, {{"rows", rows}}};
}

// A launch of an op whose tensors lie nowhere yet.
class ShapedLaunch {
 public:
  ShapedLaunch(const Spec& spec, const Storage& storage) : spec_(spec) {
    for (const TensorType& type : spec_.inputs) add(inputs_, type, storage.inputs);
    for (const TensorType& type : spec_.op->infer({spec_.inputs, spec_.attributes})) {
      add(outputs_, type, storage.outputs);
      factors_.push_back(0.75f);
      randoms_.emplace_back(1, "output", factors_.size());
    }
  }

  Launch launch(std::span<std::byte> workspace = {}) const {
    return {inputs_, outputs_, spec_.attributes, factors_, randoms_, workspace, 3};
  }
  // Of all inputs and outputs.
  double bytes() const {
    double bytes = 0;
    for (const auto* buffers : {&inputs_, &outputs_}) {
      for (const Buffer& each : *buffers) bytes += static_cast<double>(byte_count(each));
    }
    return bytes;
  }

 protected:
  static int64_t byte_count(const Buffer& buffer) {
    return buffer.count() * (buffer.codec ? buffer.codec->bytes() : 4);
  }
  static void add(std::vector<Buffer>& to, const TensorType& type,
                  const std::vector<std::string>& formats) {
    Buffer buffer;
    buffer.shape = type.shape;
    buffer.kind = type.kind;
    if (type.kind == Kind::real) {
      buffer.codec = codec_of(formats[std::min(to.size(), formats.size() - 1)]);
    }
    to.push_back(buffer);
  }

  Spec spec_;
  std::vector<Buffer> inputs_, outputs_;
  std::vector<float> factors_;
  std::vector<RandomStream> randoms_;
};

}  // namespace sigma1
