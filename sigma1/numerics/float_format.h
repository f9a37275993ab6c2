// One description for every small number format: what its bits mean, and what follows from that.
// Table A.1 of the paper is this struct, tabulated.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sigma1 {

// What the codes that are not plain numbers stand for.
enum class Specials {
  ieee,             // exponent all ones: infinity, and NaN where a mantissa bit is set
  nan_only,         // all ones: NaN; no infinity ("fn")
  nan_is_neg_zero,  // the code of −0: NaN; no infinity, no −0 ("fnuz")
  none,             // every code is a finite number
  integer,          // two's complement: no exponent, no −0, no specials
};

struct FloatFormat {
  int exponent_bits = 0;
  int mantissa_bits = 0;
  int bias = 0;
  Specials specials = Specials::ieee;

  bool operator==(const FloatFormat&) const = default;

  int bits() const { return 1 + exponent_bits + mantissa_bits; }
  int bytes() const { return bits() <= 8 ? 1 : bits() <= 16 ? 2 : 4; }
  uint32_t sign_bit() const { return 1u << (bits() - 1); }
  bool has_infinity() const { return specials == Specials::ieee; }
  bool has_nan() const;

  // Codes without their sign bit. In every format a larger one is a larger number, up to
  // max_magnitude(); infinity and NaN, where they exist, lie beyond or at −0.
  uint32_t max_magnitude() const;
  uint32_t infinity_magnitude() const { return max_magnitude() + 1; }  // needs has_infinity()
  uint32_t nan_code() const;                                           // needs has_nan(); quiet

  int max_exponent() const;
  int min_exponent() const;  // of normal numbers
  double max() const;        // largest finite
  double lowest() const;     // most negative finite
  double min_normal() const;
  double min_subnormal() const;
  uint32_t finite_values() const;  // distinct: +0 and −0 are one value
};

struct NamedFormat {
  std::string name;
  std::string label;  // as the paper or its standard writes it
  FloatFormat format;
  std::vector<std::string> aliases;
};

std::span<const NamedFormat> named_formats();

// A named format, one of its aliases, or any eXmY: IEEE-like, with infinity and NaN; eXmYfn without
// infinity, eXmYfnuz with a single NaN at −0. Throws Error with the nearest name when it is
// neither.
NamedFormat find_format(std::string_view name);
// The other way: a name that find_format() takes.
std::string format_name(const FloatFormat& format);

}  // namespace sigma1
