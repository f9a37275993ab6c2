// Limits against quantize(), one float to either side of each; sums and counts against a plain loop
// on every instruction set.
#include "sigma1/numerics/tensor_stats.h"

#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <cmath>
#include <vector>

#include "sigma1/base/rng.h"
#include "sigma1/numerics/quantize.h"
#include "tests/backend/instruction_sets.h"
#include "tests/numerics/stats_checks.h"

namespace sigma1 {
namespace {

using Floats = std::vector<float>;
using cpu::kInf;
using cpu::kNan;

constexpr const char* kFormats[] = {"fp32",     "tf32",     "bf16",     "fp16",      "e4m3", "e5m2",
                                    "e4m3fnuz", "e5m2fnuz", "e3m2",     "e2m3",      "e2m1", "int8",
                                    "e3m4",     "e3m4fn",   "e3m4fnuz", "fp16_e6m9", "e3m0"};

FloatFormat named(std::string_view name) { return find_format(name).format; }

// Whether rounding to nearest leaves the format. One without infinity and NaN hides that, and is
// asked with an exponent bit more, or an integer's digit more: the same numbers, and more of them.
bool is_beyond(float x, FloatFormat format) {
  if (format.has_infinity()) {
    return std::isinf(quantize(x, {format, Rounding::nearest_even, Overflow::infinity}));
  }
  if (format.has_nan()) {
    return std::isnan(quantize(x, {format, Rounding::nearest_even, Overflow::nan}));
  }
  FloatFormat wider = format;
  ++(format.specials == Specials::integer ? wider.mantissa_bits : wider.exponent_bits);
  return quantize(x, {wider}) > format.max();
}

TEST(FormatLimits, AreWhereQuantizeTurns) {
  for (const char* name : kFormats) {
    SCOPED_TRACE(name);
    FloatFormat format = named(name);
    FormatLimits limits = FormatLimits::of(format);
    float next = std::nextafter(limits.zero_up_to, kInf);
    EXPECT_EQ(quantize(limits.zero_up_to, {format}), 0);
    EXPECT_EQ(quantize(next, {format}), format.min_subnormal());
    EXPECT_EQ(limits.normal_from, format.min_normal());
    EXPECT_TRUE(std::isfinite(limits.finite_up_to));
    EXPECT_FALSE(is_beyond(limits.finite_up_to, format));
    EXPECT_TRUE(is_beyond(std::nextafter(limits.finite_up_to, kInf), format));
    EXPECT_EQ(quantize(limits.finite_up_to, {format}), format.max());
  }
}

TEST(FormatLimits, AreThePublishedOnes) {
  EXPECT_EQ(FormatLimits::of(named("fp32")).zero_up_to, 0);
  EXPECT_EQ(FormatLimits::of(named("fp32")).finite_up_to, FLT_MAX);
  EXPECT_EQ(FormatLimits::of(named("e4m3")).zero_up_to, 0x1p-10f);
  EXPECT_EQ(FormatLimits::of(named("e4m3")).finite_up_to, 464);  // its largest code is even
  EXPECT_EQ(FormatLimits::of(named("e4m3")).normal_from, 0x1p-6f);
  EXPECT_EQ(FormatLimits::of(named("fp16")).finite_up_to, std::nextafter(65520.0f, 0.0f));
}

TEST(FormatLimits, OfADividedTensorMoveWithIt) {
  FormatLimits plain = FormatLimits::of(named("e5m2")), moved = plain.times(0x1p-20f);
  EXPECT_EQ(moved.zero_up_to, plain.zero_up_to * 0x1p-20f);
  EXPECT_EQ(moved.normal_from, plain.normal_from * 0x1p-20f);
  EXPECT_EQ(moved.finite_up_to, plain.finite_up_to * 0x1p-20f);
}

// What a plain loop in double finds.
TensorStats plain_stats(const Floats& values) {
  TensorStats stats;
  for (float x : values) {
    ++stats.count;
    float size = std::fabs(x);
    if (!std::isfinite(x)) {
      ++stats.nonfinite;
      continue;
    }
    stats.sum += x;
    stats.sum_squares += static_cast<double>(x) * x;
    if (x == 0) {
      ++stats.zeros;
      continue;
    }
    stats.abs_min = stats.abs_max == 0 ? size : std::min(stats.abs_min, size);
    stats.abs_max = std::max(stats.abs_max, size);
    int binade = size < FLT_MIN ? 0 : std::ilogb(size) + 127;
    ++stats.binades[static_cast<size_t>(binade)];
  }
  return stats;
}

FormatLoss plain_loss(const Floats& values, const FloatFormat& format) {
  FormatLoss loss;
  for (float x : values) {
    float size = std::fabs(x);
    bool beyond = !std::isfinite(x) || is_beyond(size, format);
    bool vanishes = size > 0 && quantize(size, {format}) == 0;
    loss.beyond += beyond;
    loss.to_zero += vanishes;
    loss.subnormal += size > 0 && !vanishes && size < format.min_normal();
  }
  return loss;
}

// Every kind of number at every place of a vector, over fp32's whole range.
Floats mixed_numbers(size_t count) {
  const float special[] = {0.0f, -0.0f, 1e-45f, -1e-45f, 5e-39f, 3e38f,   -3e38f,
                           kInf, -kInf, kNan,   -kNan,   1.0f,   FLT_MIN, -FLT_MAX};
  RandomStream random(3, "mixed");
  Floats values;
  for (size_t i = 0; i < count; ++i) {
    auto normal = static_cast<float>(random.normal(i));
    auto word = random.bits(i);
    values.push_back(i % 3 == 1   ? special[word % std::size(special)]
                     : i % 3 == 2 ? std::ldexp(normal, static_cast<int>(word % 60) - 40)
                                  : normal);
  }
  return values;
}

void expect_near(double got, double want, double size) {
  EXPECT_LE(std::fabs(got - want), 1e-13 * size) << got << " for " << want;
}

void expect_same(const TensorStats& got, const TensorStats& want) {
  expect_counts(got, want);
  // Terms of both signs: what they may err by goes by their sizes.
  double sizes = std::sqrt(want.sum_squares * static_cast<double>(want.count));
  expect_near(got.sum, want.sum, sizes);
  expect_near(got.sum_squares, want.sum_squares, want.sum_squares);
}

void expect_same(const FormatLoss& got, const FormatLoss& want) {
  EXPECT_EQ(got.to_zero, want.to_zero);
  EXPECT_EQ(got.subnormal, want.subnormal);
  EXPECT_EQ(got.beyond, want.beyond);
}

using TensorStatsOn = cpu::EachInstructionSet;

constexpr size_t kSizes[] = {0, 1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 1000};

TEST_P(TensorStatsOn, EqualAPlainLoop) {
  for (size_t size : kSizes) {
    SCOPED_TRACE(size);
    Floats values = mixed_numbers(size);
    TensorStats got;
    got.add(values);
    expect_same(got, plain_stats(values));
  }
}

TEST_P(TensorStatsOn, LossesEqualAPlainLoop) {
  for (const char* name : kFormats) {
    SCOPED_TRACE(name);
    FormatLimits limits = FormatLimits::of(named(name));
    for (size_t size : kSizes) {
      Floats values = mixed_numbers(size);
      for (float x : {limits.zero_up_to, limits.normal_from, limits.finite_up_to}) {
        for (float y : {x, std::nextafter(x, 0.0f), std::nextafter(x, kInf)}) {
          if (size == 0) break;
          values.push_back(y);
          values.push_back(-y);  // limits are of magnitudes, though an integer's lowest is larger
        }
      }
      FormatLoss got;
      got.add(values, limits);
      expect_same(got, plain_loss(values, named(name)));
    }
  }
}

TEST_P(TensorStatsOn, EachNumberAloneAtEachPlaceIsFound) {
  for (float x : {-0.0f, 1e-45f, -3e38f, kInf, -kNan, 1.5f}) {
    for (size_t place = 0; place < 35; ++place) {
      Floats values(35, 1.0f);
      values[place] = x;
      TensorStats got;
      got.add(values);
      expect_same(got, plain_stats(values));
    }
  }
}

TEST_P(TensorStatsOn, PartsMakeTheWhole) {
  Floats values = mixed_numbers(1000);
  FormatLimits limits = FormatLimits::of(named("e4m3"));
  TensorStats whole = plain_stats(values), parts, alone;
  FormatLoss loss;
  for (size_t begin = 0, size = 1; begin < values.size(); begin += size, size = size * 2 + 1) {
    auto part = std::span(values).subspan(begin, std::min(size, values.size() - begin));
    TensorStats one;
    one.add(part);
    parts.add(one);
    alone.add(part);
    loss.add(part, limits);
  }
  parts.add(TensorStats{});  // an empty part has no smallest number
  expect_same(parts, whole);
  expect_same(alone, whole);
  expect_same(loss, plain_loss(values, named("e4m3")));
}

TEST_P(TensorStatsOn, LargeSquaresDoNotOverflow) {
  Floats values(100, 3e38f);
  TensorStats stats;
  stats.add(values);
  EXPECT_FLOAT_EQ(static_cast<float>(stats.rms()), 3e38f);
  EXPECT_FLOAT_EQ(static_cast<float>(stats.mean()), 3e38f);
  EXPECT_LT(stats.std_dev(), 1e33);
}

INSTANTIATE_TEST_SUITE_P(Sets, TensorStatsOn, cpu::kInstructionSets);

TEST(TensorStats, MomentsAreOfTheFiniteNumbers) {
  TensorStats stats;
  stats.add(Floats{1, 3, kInf, kNan, 0, 0});
  EXPECT_DOUBLE_EQ(stats.mean(), 1);
  EXPECT_DOUBLE_EQ(stats.rms(), std::sqrt(2.5));
  EXPECT_DOUBLE_EQ(stats.std_dev(), std::sqrt(1.5));
  TensorStats none;
  EXPECT_EQ(none.mean() + none.rms() + none.std_dev(), 0);
  none.add(Floats{kNan, -kInf});
  EXPECT_EQ(none.mean() + none.rms() + none.std_dev(), 0);
  EXPECT_EQ(none.abs_min, 0);
  EXPECT_EQ(none.nonfinite, 2);
}

TEST(TensorStats, ABinadeStartsAtItsPowerOfTwo) {
  for (int exponent = -126; exponent <= 127; ++exponent) {
    auto power = std::ldexp(1.0f, exponent);
    TensorStats stats;
    stats.add(Floats{power, -std::nextafter(power, kInf), std::nextafter(power, 0.0f)});
    constexpr int kLowest = -127;
    auto here = static_cast<size_t>(int64_t{exponent} - kLowest);
    EXPECT_EQ(stats.binades[here], 2) << exponent;
    EXPECT_EQ(stats.binades[here - 1], 1) << exponent;
  }
}

}  // namespace
}  // namespace sigma1
