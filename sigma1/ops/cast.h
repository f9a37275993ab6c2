// Casts that find their scale while training: what per-tensor scaling needs and unit scaling does
// not.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include "sigma1/graph/graph.h"

namespace sigma1 {

inline constexpr int64_t kAmaxHistory = 16;  // steps, as other FP8 engines keep by default

// The factor that puts the largest magnitude at the format's largest number; 1 where that says
// nothing.
constexpr float cast_scale(float largest_magnitude, float largest_number) {
  constexpr float kSmallest = std::numeric_limits<float>::min();
  constexpr float kLargest = std::numeric_limits<float>::max();
  float scale = largest_number / largest_magnitude;
  auto is_normal = [](float x) { return x >= kSmallest && x <= kLargest; };
  return is_normal(scale) && is_normal(1 / scale) ? scale : 1;
}
float cast_scale(float largest_magnitude, const FloatFormat& format);

// x → x rounded to `format` at the scale of its own largest magnitude; or, with a history [16] of
// them from the steps before, at the scale of the largest there, and then → the next history too,
// newest first. Attribute format, by name. Emitted when precision is lowered.
extern const OpDef scaled_cast_op;

// With `delayed` the history is an input and a marked output of the graph, both called
// NAME/amax_history.
Value scaled_cast(Value x, std::string_view format, bool delayed, const std::string& name);

}  // namespace sigma1
