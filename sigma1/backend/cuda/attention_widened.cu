#include "sigma1/backend/cuda/attention_widened.cuh"

#include <algorithm>

#include "sigma1/backend/cuda/chain.cuh"
#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/ops/pointwise.h"

namespace sigma1::cuda {
namespace {

bool is_8_bit(const Buffer& buffer) {
  Type type = view_of(buffer).type;
  return type == Type::e4m3 || type == Type::e5m2;
}

const Codec* fp16_codec() {
  return shared_codec({find_format("fp16").format, Rounding::nearest_even, Overflow::infinity});
}

}  // namespace

WidenedInputs::WidenedInputs(const Launch& launch)
    : from_(launch), inputs_(launch.inputs.begin(), launch.inputs.end()) {
  constexpr int64_t kAlignment = 64;
  size_t mask = launch.attr<bool>("has_relative") ? 4 : 3;
  auto is_mask = [&](size_t i) { return launch.attr<bool>("has_mask") && i == mask; };
  bool any = false, all = true;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (is_mask(i)) continue;
    bool wide = view_of(inputs_[i]).type == Type::fp16;
    any |= is_8_bit(inputs_[i]);
    all &= (wide || is_8_bit(inputs_[i])) && inputs_[i].scale == nullptr;
  }
  if (!any || !all) return;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (is_mask(i) || !is_8_bit(inputs_[i])) continue;
    inputs_[i].codec = fp16_codec();
    inputs_[i].turned = nullptr;  // of the codes of 8 bits
    inputs_[i].data =
        launch.workspace.data() == nullptr ? nullptr : launch.workspace.data() + bytes_;
    bytes_ += (2 * inputs_[i].count() + kAlignment - 1) / kAlignment * kAlignment;
  }
}

Launch WidenedInputs::launch() const {
  Launch result = from_;
  result.inputs = inputs_;
  result.workspace =
      from_.workspace.subspan(std::min(static_cast<size_t>(bytes_), from_.workspace.size()));
  return result;
}

void WidenedInputs::widen() const {
  constexpr float kOne = 1;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (inputs_[i].codec == from_.inputs[i].codec) continue;
    static const Attributes kNone;
    run_pointwise(identity_op,
                  {{&from_.inputs[i], 1}, {&inputs_[i], 1}, kNone, {&kOne, 1}, {}, {}, 0, nullptr});
  }
}

}  // namespace sigma1::cuda
