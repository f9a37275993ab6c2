// The gradient of kept attention, the concat of its results, their cast to E5M2 and sums of their
// columns, as one chain on tensors of its own.
#pragma once

#include <deque>

#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/shape.h"
#include "tests/gpu/attention_kept_case.h"

namespace sigma1 {

struct CodesWanted {
  bool turned = true, sums = true;
};

class PlacedCodes {
 public:
  // Later factors, exact ones, of the concat and of the cast: what is stored is as much as the
  // call's outputs.
  static constexpr float kOfConcat = 4, kOfCast = 0.5f, kOfSum = 0.375f;

  PlacedCodes(const KeptGrad& grad, CodesWanted wanted) : grad_(grad), wanted_(wanted) {
    const KernelCall& call = grad.call;
    for (size_t i = 0; i < call.inputs().size(); ++i) {
      inputs_.push_back(call.input(i));
      std::vector<std::byte> codes = encoded(call.input(i), call.inputs()[i]);
      inputs_.back().data = add_memory(static_cast<int64_t>(codes.size()));
      memory_.back().write(codes);
    }
    for (size_t o = 0; o < call.output_count(); ++o) {
      grads_.push_back(inner(call.output(o).shape));
      factors_.push_back(call.factor(o) / (kOfConcat * kOfCast));
    }
    width_ = static_cast<int64_t>(grads_.size()) * grads_.front().shape.back();
    rows_ = grads_.front().count() / grads_.front().shape.back();
    Shape shape = grads_.front().shape;
    shape.back() = width_;
    whole_ = {inner(shape)};
    summed_ = {inner({rows_, width_})};
    codes_ = whole_;
    codes_[0].codec = codec_of("e5m2");
    codes_[0].data = add_memory(rows_ * width_);
    if (wanted.turned) codes_[0].turned = add_memory(rows_ * width_);
    if (wanted.sums) {
      sums_ = {inner({width_})};
      sums_[0].codec = nullptr;
      sums_[0].data = add_memory(width_ * static_cast<int64_t>(sizeof(float)));
    }
    chain_ = cuda_device().make_chain(NodeGroup::Kind::joined, steps());
    chain_->set_workspace(add_memory(chain_->workspace()));
  }

  void run() const { chain_->run(KernelCall::kStep); }
  int64_t rows() const { return rows_; }
  int64_t width() const { return width_; }
  std::vector<std::byte> codes() const { return bytes_at(codes_[0].data); }
  std::vector<std::byte> turned() const { return bytes_at(codes_[0].turned); }
  std::vector<float> sums() const {
    std::vector<float> result(static_cast<size_t>(width_));
    cuda_device().read(result.data(), sums_[0].data, width_ * static_cast<int64_t>(sizeof(float)));
    return result;
  }
  bool is_intact() const {
    return std::ranges::all_of(memory_, [](const Memory& each) { return each.is_intact(); });
  }

 private:
  std::byte* add_memory(int64_t bytes) { return memory_.emplace_back(cuda_device(), bytes).data(); }
  static Buffer inner(const Shape& shape) {
    Buffer buffer;
    buffer.shape = shape;
    buffer.codec = codec_of("fp16");
    return buffer;
  }
  std::vector<std::byte> bytes_at(const std::byte* data) const {
    std::vector<std::byte> bytes(static_cast<size_t>(rows_ * width_));
    cuda_device().read(bytes.data(), data, rows_ * width_);
    return bytes;
  }
  std::vector<ChainStep> steps() const {
    static const Attributes kNone, kLast{{"axis", int64_t{2}}},
        kRows{{"axes", std::vector<int64_t>{0}}};
    auto launch = [&](std::span<const Buffer> from, std::span<const Buffer> to,
                      const Attributes& attributes, std::span<const float> factors) {
      return Launch{from, to, attributes, factors, random_, {}, KernelCall::kStep};
    };
    std::vector<ChainStep> steps{
        {&attention_kept_grad_op, launch(inputs_, grads_, grad_.attributes, factors_),
         std::vector<int>(inputs_.size(), -1)},
        {&concat_op, launch(grads_, whole_, kLast, {&kOfConcat, 1}), {0, 0, 0}},
        {&identity_op, launch(whole_, codes_, kNone, {&kOfCast, 1}), {1}}};
    if (wanted_.sums) steps.push_back({&sum_op, launch(summed_, sums_, kRows, {&kOfSum, 1}), {1}});
    return steps;
  }

  const KeptGrad& grad_;
  CodesWanted wanted_;
  std::deque<Memory> memory_;
  std::vector<Buffer> inputs_, grads_, whole_, codes_, summed_, sums_;
  std::vector<float> factors_;
  std::vector<RandomStream> random_{KernelCall::random(0), KernelCall::random(1),
                                    KernelCall::random(2)};
  int64_t rows_ = 0, width_ = 0;
  std::unique_ptr<Chain> chain_;
};

}  // namespace sigma1
