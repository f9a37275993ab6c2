#include "sigma1/backend/cuda/attention_kept_codes.cuh"

#include "sigma1/backend/cuda/attention_kept.cuh"
#include "sigma1/backend/cuda/chain.cuh"
#include "sigma1/backend/cuda/partial_sums.cuh"
#include "sigma1/base/error.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/shape.h"

namespace sigma1::cuda {
namespace {

constexpr size_t kGrad = 0, kConcat = 1, kCast = 2, kSteps = 3;

// The gradient's launch with parts of the cast's rows as outputs.
struct CodesLaunch {
  const Launch& grad;
  std::vector<Buffer> outputs;
  std::vector<float> factors;

  explicit CodesLaunch(std::span<const ChainStep> steps) : grad(steps[kGrad].launch) {
    const Launch& cast = steps[kCast].launch;
    float later = steps[kConcat].launch.factor() * cast.factor();
    int64_t before = 0;
    for (size_t o = 0; o < grad.outputs.size(); ++o) {
      Buffer part = cast.out();
      part.shape = grad.out(o).shape;
      part.turned = nullptr;
      part.pitch = cast.out().shape.back();
      if (part.data != nullptr) part.data += before;
      before += part.shape.back();
      outputs.push_back(part);
      factors.push_back(grad.factor(o) * later);
    }
  }
  Launch with(std::span<std::byte> workspace) const {
    Launch result = grad;
    result.outputs = outputs;
    result.factors = factors;
    result.workspace = workspace;
    return result;
  }
};

bool is_along_rows(const Launch& concat) {
  auto axis = concat.attr<int64_t>("axis");
  return axis == -1 || axis == static_cast<int64_t>(concat.out().shape.size()) - 1;
}

// To nearest, what is too large to the largest number.
bool is_plain_e5m2(const Buffer& buffer) {
  if (buffer.kind != Kind::real || buffer.codec == nullptr || buffer.scale != nullptr) return false;
  const Cast& cast = buffer.codec->cast();
  return find_type(cast.format) == Type::e5m2 && cast.rounding == Rounding::nearest_even &&
         cast.overflow == Overflow::saturate;
}

int64_t workspace_of_grad(const CodesLaunch& launch) {
  constexpr int64_t kAlignment = 64;
  int64_t bytes = attention_kept_grad_workspace(launch.with({}));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

bool is_codes_chain(std::span<const ChainStep> steps) {
  if (steps.size() != kSteps || steps[kGrad].op != &attention_kept_grad_op ||
      steps[kConcat].op != &concat_op || steps[kCast].op != &identity_op) {
    return false;
  }
  const Buffer &whole = steps[kConcat].launch.out(), &codes = steps[kCast].launch.out();
  return is_along_rows(steps[kConcat].launch) && codes.shape.back() == whole.shape.back() &&
         is_plain_e5m2(codes) && gives_codes(CodesLaunch(steps).with({}));
}

// It is summed up before the cast rounds it, in fp32.
bool codes_take_sum(std::span<const ChainStep> steps, const ChainStep& sum) {
  return steps.size() == kSteps && sum.op == &sum_op &&
         sums_columns(sum.launch, steps[kCast].launch.out());
}

KeptCodesChain::KeptCodesChain(std::vector<ChainStep> steps) : steps_(std::move(steps)) {
  if (steps_.size() > kSteps) {
    sum_.emplace(std::move(steps_.back()));
    steps_.pop_back();
  }
  if (steps_.size() != kSteps) throw Bug("codes of {} steps", steps_.size());
}

int64_t KeptCodesChain::workspace() const {
  CodesLaunch launch(steps_);
  int64_t width = steps_[kCast].launch.out().shape.back();
  int64_t sums = sum_ ? kept_sum_parts(launch.with({})) * width : 0;
  return workspace_of_grad(launch) + sums * static_cast<int64_t>(sizeof(float));
}

void KeptCodesChain::run(uint64_t) {
  CodesLaunch codes(steps_);
  const Launch& cast = steps_[kCast].launch;
  int64_t room = workspace_of_grad(codes), width = cast.out().shape.back();
  const Launch launch = codes.with({memory_, static_cast<size_t>(room)});
  float* sums = sum_ ? reinterpret_cast<float*>(memory_ + room) : nullptr;
  run_attention_kept_codes(launch, {reinterpret_cast<uint8_t*>(cast.out().turned), sums});
  if (!sum_) return;
  bool before_cast = sum_->producer.front() < static_cast<int>(kCast);
  float factor = sum_->launch.factor() / (before_cast ? cast.factor() : 1);
  PartialSums all{sums, kept_sum_parts(launch), width, width, output_of(sum_->launch), factor};
  add_parts({&all, 1});
}

}  // namespace sigma1::cuda
