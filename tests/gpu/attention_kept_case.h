// Attention of given sizes that keeps logarithms and its result, and its gradient from them, in the
// formats that a step would have them in.
#pragma once

#include "tests/gpu/attention_case.h"

namespace sigma1 {

using Formats = std::vector<std::string>;
using Bytes = std::vector<std::vector<std::byte>>;

// What a gradient has of its forward.
struct Kept {
  Tensor result, logs;
  double factor;  // of the result
};

inline Attributes with(Attributes attributes, const char* name, Attribute value) {
  attributes.set(name, std::move(value));
  return attributes;
}

struct KeptForward {
  Attributes attributes;
  KernelCall call;

  KeptForward(const AttentionCase& c, const std::string& format, const Formats& outputs,
              const std::vector<Tensor>& inputs, bool keeps_result = false)
      : attributes(with(c.attributes(), kKeepsResult, keeps_result)),
        call(attention_kept_op, c.types(attention_op), attributes, {format, {format}, outputs},
             inputs, cuda_device()) {}

  Kept kept() const {
    Bytes got = call.run();
    Kept result{decoded(call.output(0), got[0]), decoded(call.output(1), got[1]),
                static_cast<double>(call.factor(0))};
    for (double& log : result.logs.data) log /= static_cast<double>(call.factor(1));
    return result;
  }
};

// Of inputs of attention_grad, in one format, with the result in another and logarithms in fp32.
struct KeptGrad {
  Attributes attributes;
  KernelCall call;

  KeptGrad(const AttentionCase& c, const std::string& format, const std::string& result_format,
           const std::string& outputs, const std::vector<Tensor>& inputs, const Kept& kept)
      : attributes(with(c.attributes(), kResultFactor, kept.factor)),
        call(attention_kept_grad_op, types(c), attributes,
             storage(inputs.size(), format, result_format, outputs), joined(inputs, kept),
             cuda_device()) {}

  static std::vector<TensorType> types(const AttentionCase& c) {
    std::vector<TensorType> all = c.types(attention_grad_op);
    all.push_back(all.front());
    all.push_back({{c.batch, c.heads, c.tq}});
    return all;
  }
  static Storage storage(size_t inputs, const std::string& format, const std::string& result,
                         const std::string& outputs) {
    Formats all(inputs, format);
    all.insert(all.end(), {result, "fp32"});
    return {format, all, {outputs}};
  }
  static std::vector<Tensor> joined(std::vector<Tensor> inputs, const Kept& kept) {
    inputs.push_back(kept.result);
    inputs.push_back(kept.logs);
    return inputs;
  }
};

inline std::vector<Tensor> without_dy(std::vector<Tensor> inputs) {
  inputs.pop_back();
  return inputs;
}

// The gradient as a step would have it, with forward's y as the result.
inline KeptGrad grad_of(const AttentionCase& c, const std::string& format,
                        const std::string& result_format, const std::string& outputs,
                        const std::vector<Tensor>& inputs) {
  KeptForward forward(c, format, {result_format, "fp32"}, without_dy(inputs));
  return KeptGrad(c, format, result_format, outputs, inputs, forward.kept());
}

// The norms of gradients' errors over their norms.
inline std::vector<double> grad_errors(const AttentionCase& c, const KeptGrad& grad) {
  std::vector<Tensor> inputs = grad.call.inputs();
  inputs.resize(inputs.size() - 2);
  Attributes attributes = c.attributes();
  KernelCall exact(attention_grad_op, c.types(attention_grad_op), attributes,
                   {"fp32", {"fp32"}, {"fp32"}}, inputs, cuda_device());
  Bytes got = grad.call.run(), want = exact.run();
  EXPECT_EQ(got, grad.call.run()) << "not the same bits again";
  std::vector<double> all;
  for (size_t o = 0; o < got.size(); ++o) {
    all.push_back(
        relative_error(decoded(grad.call.output(o), got[o]), decoded(exact.output(o), want[o])));
  }
  return all;
}

}  // namespace sigma1
