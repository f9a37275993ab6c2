// Attention of given sizes by a GPU's kernels in 16 bits against its fp32 kernels, on the numbers
// that the format holds.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/simulate.h"
#include "sigma1/ops/attention.h"
#include "tests/conformance/kernel_call.h"

namespace sigma1 {

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

// As few numbers as make no difference, over and over: to draw them all would take minutes.
inline Tensor repeated(const TensorType& type) {
  constexpr int64_t kDrawn = 1 << 16;
  static const AttentionCase small{1, 1, kDrawn, 1, 1};
  static const Tensor drawn = small.inputs(attention_op, 1)[0];
  Tensor all(type.shape);
  for (int64_t i = 0; i < all.count(); ++i) all[i] = drawn[i % kDrawn];
  return all;
}

inline double relative_error(const Tensor& got, const Tensor& want) {
  double off = 0, norm = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    off += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(off / norm);
}

// The norms of the outputs' errors over the outputs' norms, each of fp32 outputs.
inline std::vector<double> attention_errors(const OpDef& op, const AttentionCase& c,
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
inline void expect_close(const AttentionCase& c, const std::string& format, double dy_scale) {
  double bound = format == "fp16" ? 1e-3 : 8e-3;
  for (const OpDef* op : {&attention_op, &attention_grad_op}) {
    std::vector<double> all = attention_errors(*op, c, format, dy_scale);
    for (size_t o = 0; o < all.size(); ++o) {
      EXPECT_LE(all[o], bound) << op->name << " output " << o;
      EXPECT_GT(all[o], 0) << op->name << " output " << o;
    }
  }
}

}  // namespace sigma1
