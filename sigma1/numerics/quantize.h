// Numbers in and out of a format, one at a time and exactly: the definition that the array
// conversions (convert.h) and every backend are held to, bit for bit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "sigma1/numerics/float_format.h"

namespace sigma1 {

enum class Rounding { nearest_even, stochastic, toward_zero };

// What a magnitude becomes that rounds beyond the largest finite one; infinity is such a magnitude.
enum class Overflow { saturate, infinity, nan };

Rounding parse_rounding(std::string_view name);
Overflow parse_overflow(std::string_view name);

// A cast is x -> the code of x·scale; reading a code back divides by scale again.
struct Cast {
  FloatFormat format;
  Rounding rounding = Rounding::nearest_even;
  Overflow overflow = Overflow::saturate;
  float scale = 1;

  bool operator==(const Cast&) const = default;
};

// Throws Error when the cast asks for a special value its format lacks, or its scale is not usable.
void check(const Cast& cast);

// `random` decides stochastic rounding: up when its sum with the discarded fraction, in units of
// 2^-32, carries. NaN keeps its sign and becomes the quiet NaN without payload; where a format has
// no NaN it becomes the largest number, as on NVIDIA hardware (quantize() keeps NaN always).
uint32_t encode(double x, const Cast& cast, uint32_t random = 0);
double decode(uint32_t code, const FloatFormat& format);
double decode(uint32_t code, const Cast& cast);

// What x becomes by going through the cast.
double quantize(double x, const Cast& cast, uint32_t random = 0);

}  // namespace sigma1
