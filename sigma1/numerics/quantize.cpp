#include "sigma1/numerics/quantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"

namespace sigma1 {
namespace {

template <class Value>
struct Choice {
  std::string name;
  Value value;
};

template <class Value, size_t count>
Value choose(std::string_view what, std::string_view name, const Choice<Value> (&choices)[count]) {
  std::vector<std::string> names;
  for (const auto& choice : choices) {
    if (choice.name == name) return choice.value;
    names.push_back(choice.name);
  }
  throw Error("{}: expected one of {}, got '{}'", what, fmt::join(names, ", "), name);
}

// |x| as significand · 2^exponent with a 53-bit integer significand (fewer bits for subnormals).
struct Parts {
  uint64_t significand;
  int exponent;  // of the leading place of a normal double: value < 2^(exponent + 1)
};

Parts split_magnitude(double magnitude) {
  auto bits = std::bit_cast<uint64_t>(magnitude);
  auto field = static_cast<int>(bits >> 52);
  uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  return field == 0 ? Parts{fraction, -1022} : Parts{fraction | uint64_t{1} << 52, field - 1023};
}

// The first 32 bits of what a right shift by `shift` discards.
uint32_t discarded_fraction(uint64_t significand, int shift) {
  if (shift >= 96) return 0;
  if (shift > 32)
    return static_cast<uint32_t>(shift >= 64 ? (significand >> 32) >> (shift - 64)
                                             : significand >> (shift - 32));
  return static_cast<uint32_t>(significand << (32 - shift));
}

bool rounds_up(uint64_t code, uint64_t significand, int shift, Rounding rounding, uint32_t random) {
  uint32_t fraction = discarded_fraction(significand, shift);
  switch (rounding) {
    case Rounding::toward_zero:
      return false;
    case Rounding::stochastic:
      return fraction > ~random;
    case Rounding::nearest_even: {
      constexpr uint32_t kHalf = 0x80000000;
      bool beyond_fraction =
          shift > 32 && shift < 64 && (significand & ((uint64_t{1} << (shift - 32)) - 1)) != 0;
      return fraction > kHalf || (fraction == kHalf && (beyond_fraction || code % 2 == 1));
    }
  }
  throw Bug("unknown Rounding");
}

// |x| as a code without sign, not yet bounded by the format's largest.
uint64_t round_magnitude(double magnitude, const FloatFormat& format, Rounding rounding,
                         uint32_t random) {
  auto [significand, exponent] = split_magnitude(magnitude);
  // An integer is a format whose every number is subnormal, with quantum 1.
  int lowest_exponent =
      format.specials == Specials::integer ? format.mantissa_bits : format.min_exponent();
  int place = std::max(exponent, lowest_exponent);
  int shift = 52 - format.mantissa_bits + (place - exponent);
  uint64_t code = static_cast<uint64_t>(place - lowest_exponent) << format.mantissa_bits;
  code += shift < 64 ? significand >> shift : 0;
  // A carry out of the significand runs into the exponent field, which is just what it should do.
  return code + (rounds_up(code, significand, shift, rounding, random) ? 1 : 0);
}

uint32_t with_sign(uint32_t magnitude, bool negative, const FloatFormat& format) {
  if (!negative || magnitude == 0) {
    bool keeps_sign_of_zero =
        format.specials != Specials::integer && format.specials != Specials::nan_is_neg_zero;
    return negative && keeps_sign_of_zero ? format.sign_bit() : magnitude;
  }
  if (format.specials == Specials::integer) return 2 * format.sign_bit() - magnitude;
  return magnitude | format.sign_bit();
}

uint32_t nan_or_largest(bool negative, const FloatFormat& format) {
  if (!format.has_nan()) return format.max_magnitude();
  return format.nan_code() | (negative ? format.sign_bit() : 0);
}

uint32_t overflowed(bool negative, const Cast& cast, uint32_t largest) {
  switch (cast.overflow) {
    case Overflow::saturate:
      return with_sign(largest, negative, cast.format);
    case Overflow::infinity:
      return with_sign(cast.format.infinity_magnitude(), negative, cast.format);
    case Overflow::nan:
      return nan_or_largest(negative, cast.format);
  }
  throw Bug("unknown Overflow");
}

}  // namespace

Rounding parse_rounding(std::string_view name) {
  static const Choice<Rounding> choices[] = {{"nearest", Rounding::nearest_even},
                                             {"stochastic", Rounding::stochastic},
                                             {"toward-zero", Rounding::toward_zero}};
  return choose("rounding", name, choices);
}

Overflow parse_overflow(std::string_view name) {
  static const Choice<Overflow> choices[] = {
      {"saturate", Overflow::saturate}, {"infinity", Overflow::infinity}, {"nan", Overflow::nan}};
  return choose("overflow", name, choices);
}

void check(const Cast& cast) {
  if (cast.overflow == Overflow::infinity && !cast.format.has_infinity()) {
    throw Error("overflow to infinity: the format has no infinity; use saturate{}",
                cast.format.has_nan() ? " or nan" : "");
  }
  if (cast.overflow == Overflow::nan && !cast.format.has_nan()) {
    throw Error("overflow to NaN: the format has no NaN; use saturate{}",
                cast.format.has_infinity() ? " or infinity" : "");
  }
  if (!std::isfinite(cast.scale) || cast.scale <= 0) {
    throw Error("scale: expected a positive finite number, got {}", cast.scale);
  }
}

uint32_t encode(double x, const Cast& cast, uint32_t random) {
  const FloatFormat& format = cast.format;
  x *= cast.scale;
  bool negative = std::signbit(x);
  if (std::isnan(x)) return nan_or_largest(negative, format);
  bool one_below = negative && format.specials == Specials::integer;
  uint32_t largest = format.max_magnitude() + (one_below ? 1 : 0);
  if (std::isinf(x)) return overflowed(negative, cast, largest);
  uint64_t magnitude = round_magnitude(std::fabs(x), format, cast.rounding, random);
  if (magnitude > largest) return overflowed(negative, cast, largest);
  return with_sign(static_cast<uint32_t>(magnitude), negative, format);
}

double decode(uint32_t code, const FloatFormat& format) {
  bool negative = (code & format.sign_bit()) != 0;
  if (format.specials == Specials::integer) {
    return negative ? static_cast<double>(code) - 2.0 * format.sign_bit() : code;
  }
  uint32_t magnitude = code & (format.sign_bit() - 1);
  if (format.specials == Specials::nan_is_neg_zero && code == format.nan_code()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  double sign = negative ? -1 : 1;
  if (magnitude > format.max_magnitude()) {
    bool infinite = format.has_infinity() && magnitude == format.infinity_magnitude();
    return std::copysign(infinite ? std::numeric_limits<double>::infinity()
                                  : std::numeric_limits<double>::quiet_NaN(),
                         sign);
  }
  uint32_t implicit_one = 1u << format.mantissa_bits;
  auto field = static_cast<int>(magnitude >> format.mantissa_bits);
  uint32_t fraction = magnitude & (implicit_one - 1);
  int place = std::max(field, 1) - format.bias;
  return sign *
         std::ldexp(field == 0 ? fraction : implicit_one + fraction, place - format.mantissa_bits);
}

double decode(uint32_t code, const Cast& cast) { return decode(code, cast.format) / cast.scale; }

double quantize(double x, const Cast& cast, uint32_t random) {
  return std::isnan(x) ? x : decode(encode(x, cast, random), cast);
}

}  // namespace sigma1
