// What convert.cpp asks of its inner loops. The loops are compiled once per instruction set from
// one source, so nothing here may pull in library code: an inline function compiled for AVX-512
// could be the copy that the linker keeps for every machine.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sigma1::detail {

// A Cast reduced to the constants its loop needs. "Magnitude": a code without its sign.
struct CastPlan {
  float scale, inverse_scale;
  bool is_integer, is_half;
  float half_bound;  // largest value fp16 is given to round: finite when saturating; 0: not fp16,
                     // or to NaN
  bool streaming;    // the output is larger than the caches
  uint32_t mantissa_bits;
  uint32_t lowest_field;     // fp32's exponent field for the format's smallest normal number
  float subnormal_rounder;   // its last place is the smallest subnormal
  uint32_t below_half;       // rounding to nearest adds this, and 1 more to an odd number …
  uint32_t ties_possible;    // … unless no bit is dropped at all
  uint32_t smallest_normal;  // magnitude; 0 where subnormals are fp32's own
  float quantum;             // the smallest subnormal, for formats with their own
  uint32_t sign_shift;       // from fp32's sign to a code's
  uint32_t magnitude_mask;
  uint32_t has_negative_zero;
  uint32_t largest;                       // magnitude that still is finite
  uint32_t largest_saturated;             // no magnitude may exceed this, when saturating
  uint32_t largest_unsaturated;           // what exceeds this becomes the overflow code, when not
  uint32_t overflow_code, overflow_bits;  // of positive overflow, as code and as fp32
  uint32_t nan_code;
  uint32_t nan_sign_mask;      // 0 where NaN has no sign, because the format has no NaN
  uint32_t special_bits;       // fp32's exponent of infinity and NaN, and what makes it NaN
  uint32_t negative_zero_nan;  // the code that is NaN in the place of −0; no code where none is
};

struct RandomPlan {
  uint32_t key_low, key_high, step_low, step_high;
  uint64_t first_index;  // of the loop's first element; a multiple of four
};

enum class RoundingRule { nearest_even, stochastic, toward_zero };

// One loop for each kind of element.
struct ConvertKernels {
  void (*encode8)(const float*, uint8_t*, size_t, RoundingRule, const CastPlan&, const RandomPlan&);
  void (*encode16)(const float*, uint16_t*, size_t, RoundingRule, const CastPlan&,
                   const RandomPlan&);
  void (*decode8)(const uint8_t*, float*, size_t, const CastPlan&);
  void (*decode16)(const uint16_t*, float*, size_t, const CastPlan&);
  void (*quantize)(const float*, float*, size_t, RoundingRule, const CastPlan&, const RandomPlan&);
};

extern const ConvertKernels convert_kernels_baseline, convert_kernels_avx2, convert_kernels_avx512;

}  // namespace sigma1::detail
