#include "sigma1/numerics/float_format.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"

namespace sigma1 {

bool FloatFormat::has_nan() const {
  switch (specials) {
    case Specials::ieee:
      return mantissa_bits > 0;
    case Specials::nan_only:
    case Specials::nan_is_neg_zero:
      return true;
    case Specials::none:
    case Specials::integer:
      return false;
  }
  throw Bug("unknown Specials");
}

uint32_t FloatFormat::max_magnitude() const {
  uint32_t all_ones = sign_bit() - 1;
  switch (specials) {
    case Specials::ieee:
      return all_ones - (1u << mantissa_bits);
    case Specials::nan_only:
      return all_ones - 1;
    case Specials::nan_is_neg_zero:
    case Specials::none:
    case Specials::integer:
      return all_ones;
  }
  throw Bug("unknown Specials");
}

uint32_t FloatFormat::nan_code() const {
  switch (specials) {
    case Specials::ieee:
      return infinity_magnitude() | 1u << (mantissa_bits - 1);
    case Specials::nan_only:
      return sign_bit() - 1;
    case Specials::nan_is_neg_zero:
      return sign_bit();
    default:
      throw Bug("nan_code of a format without NaN");
  }
}

int FloatFormat::min_exponent() const { return specials == Specials::integer ? 0 : 1 - bias; }

int FloatFormat::max_exponent() const {
  if (specials == Specials::integer) return mantissa_bits - 1;
  return static_cast<int>(max_magnitude() >> mantissa_bits) - bias;
}

double FloatFormat::max() const {
  uint32_t magnitude = max_magnitude();
  if (specials == Specials::integer) return magnitude;
  uint32_t fraction = magnitude & ((1u << mantissa_bits) - 1);
  return std::ldexp((1u << mantissa_bits) + fraction, max_exponent() - mantissa_bits);
}

double FloatFormat::lowest() const { return specials == Specials::integer ? -max() - 1 : -max(); }

double FloatFormat::min_normal() const { return std::ldexp(1.0, min_exponent()); }

double FloatFormat::min_subnormal() const {
  return specials == Specials::integer ? 1.0 : std::ldexp(1.0, min_exponent() - mantissa_bits);
}

uint32_t FloatFormat::finite_values() const {
  // Both signs of every magnitude, zero once; two's complement has one more below.
  return 2 * max_magnitude() + 1 + (specials == Specials::integer ? 1 : 0);
}

namespace {

FloatFormat ieee(int exponent_bits, int mantissa_bits, Specials specials = Specials::ieee) {
  return {exponent_bits, mantissa_bits, (1 << (exponent_bits - 1)) - 1, specials};
}

FloatFormat with_single_nan(int exponent_bits, int mantissa_bits) {
  return {exponent_bits, mantissa_bits, 1 << (exponent_bits - 1), Specials::nan_is_neg_zero};
}

// Appendix A and B of the paper; FP6 and FP4 of the OCP Microscaling specification.
const std::vector<NamedFormat>& catalogue() {
  static const std::vector<NamedFormat> formats{
      {"fp32", "FP32", ieee(8, 23), {"float32", "float", "f32", "e8m23"}},
      {"tf32", "TF32", ieee(8, 10), {"tensorfloat32", "e8m10"}},
      {"bf16", "BFLOAT16", ieee(8, 7), {"bfloat16", "e8m7"}},
      {"fp16", "FP16", ieee(5, 10), {"float16", "half", "f16", "e5m10"}},
      {"fp8_e5m2fnuz",
       "FP8 E5 (a)",
       with_single_nan(5, 2),
       {"fp8_e5_a", "e5m2fnuz", "float8_e5m2fnuz"}},
      {"fp8_e5m2", "FP8 E5 (b)", ieee(5, 2), {"fp8_e5_b", "e5m2", "float8_e5m2"}},
      {"fp8_e4m3fnuz",
       "FP8 E4 (a)",
       with_single_nan(4, 3),
       {"fp8_e4_a", "e4m3fnuz", "float8_e4m3fnuz"}},
      {"fp8_e4m3",
       "FP8 E4 (b)",
       ieee(4, 3, Specials::nan_only),
       {"fp8_e4_b", "e4m3", "e4m3fn", "float8_e4m3fn", "fp8_e4m3fn"}},
      {"fp6_e3m2", "FP6 E3M2", ieee(3, 2, Specials::none), {"e3m2", "float6_e3m2fn"}},
      {"fp6_e2m3", "FP6 E2M3", ieee(2, 3, Specials::none), {"e2m3", "float6_e2m3fn"}},
      {"fp4_e2m1", "FP4 E2M1", ieee(2, 1, Specials::none), {"fp4", "e2m1", "float4_e2m1fn"}},
      {"int8", "INT8", {0, 7, 0, Specials::integer}, {"i8"}},
  };
  return formats;
}

bool answers_to(const NamedFormat& format, const std::string& name) {
  return format.name == name || std::ranges::find(format.aliases, name) != format.aliases.end();
}

// Everything passes through fp32, so a format may not hold what fp32 cannot.
FloatFormat checked_custom(const std::string& name, int exponent_bits, int mantissa_bits,
                           const std::string& suffix) {
  bool single_nan = suffix == "fnuz";
  int most_exponent_bits = single_nan ? 7 : 8;
  if (exponent_bits < 2 || exponent_bits > most_exponent_bits || mantissa_bits > 23) {
    throw Error(
        "format {}: expected 2 to {} exponent and 0 to 23 mantissa bits (no wider than fp32), "
        "got {} and {}",
        name, most_exponent_bits, exponent_bits, mantissa_bits);
  }
  if (single_nan) return with_single_nan(exponent_bits, mantissa_bits);
  return ieee(exponent_bits, mantissa_bits, suffix == "fn" ? Specials::nan_only : Specials::ieee);
}

// Takes a number of up to four digits off the front of `text`; −1 when it does not start with one.
int take_number(std::string_view& text) {
  int number = -1;
  for (int digits = 0; digits < 4 && !text.empty() && std::isdigit(text.front()) != 0; ++digits) {
    number = std::max(number, 0) * 10 + (text.front() - '0');
    text.remove_prefix(1);
  }
  return number;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// [fpN_]eXmY[fn|fnuz]
std::optional<NamedFormat> parse_custom(const std::string& name) {
  std::string_view rest = name;
  int written_bits = take(rest, "fp") ? take_number(rest) : 0;
  if (written_bits != 0 && !take(rest, "_")) return std::nullopt;
  std::string label(rest);
  if (!take(rest, "e")) return std::nullopt;
  int exponent_bits = take_number(rest);
  if (!take(rest, "m")) return std::nullopt;
  int mantissa_bits = take_number(rest);
  bool known_suffix = rest.empty() || rest == "fn" || rest == "fnuz";
  if (exponent_bits < 0 || mantissa_bits < 0 || !known_suffix) return std::nullopt;
  FloatFormat format = checked_custom(name, exponent_bits, mantissa_bits, std::string(rest));
  if (written_bits != 0 && written_bits != format.bits()) {
    throw Error("format {}: 1 sign, {} exponent and {} mantissa bits make fp{}, not fp{}", name,
                format.exponent_bits, format.mantissa_bits, format.bits(), written_bits);
  }
  return NamedFormat{name, label, format, {}};
}

}  // namespace

std::span<const NamedFormat> named_formats() { return catalogue(); }

NamedFormat find_format(std::string_view name) {
  std::string wanted = lower(name);
  std::vector<std::string> names;
  for (const NamedFormat& format : catalogue()) {
    if (answers_to(format, wanted)) return format;
    names.push_back(format.name);
    names.insert(names.end(), format.aliases.begin(), format.aliases.end());
  }
  if (auto custom = parse_custom(wanted)) return *custom;
  std::string nearest = nearest_name(wanted, names);
  throw Error("unknown format '{}'{}; `sigma1 formats` lists all, and any eXmY is one", name,
              nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

std::string format_name(const FloatFormat& format) {
  for (const NamedFormat& each : catalogue()) {
    if (each.format == format) return each.name.substr(each.name.find('_') + 1);
  }
  const char* suffix = format.specials == Specials::nan_only          ? "fn"
                       : format.specials == Specials::nan_is_neg_zero ? "fnuz"
                                                                      : "";
  return fmt::format("e{}m{}{}", format.exponent_bits, format.mantissa_bits, suffix);
}

}  // namespace sigma1
