#include "sigma1/numerics/tensor_stats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "sigma1/base/error.h"
#include "sigma1/numerics/convert.h"
#include "sigma1/numerics/tensor_stats_kernels.h"

namespace sigma1 {
namespace {

const detail::TensorStatsKernels& kernels() {
  switch (instruction_set()) {
    case InstructionSet::avx512:
      return detail::tensor_stats_kernels_avx512;
    case InstructionSet::avx2:
      return detail::tensor_stats_kernels_avx2;
    case InstructionSet::baseline:
      return detail::tensor_stats_kernels_baseline;
  }
  throw Bug("unknown InstructionSet");
}

// Neighbours often share a binade, and counting one number must not wait for the last: so they take
// turns on several tables.
void count_binades(std::span<const float> values, std::array<int64_t, 255>& binades) {
  constexpr size_t kTables = 4, kFields = 256;
  uint32_t tables[kTables][kFields] = {};
  auto field = [](float value) { return std::bit_cast<uint32_t>(value) >> 23 & 0xff; };
  size_t i = 0;
  for (; i + kTables <= values.size(); i += kTables) {
    for (size_t t = 0; t < kTables; ++t) ++tables[t][field(values[i + t])];
  }
  for (; i < values.size(); ++i) ++tables[0][field(values[i])];
  for (size_t binade = 0; binade < binades.size(); ++binade) {
    for (const auto& table : tables) binades[binade] += table[binade];
  }
}

}  // namespace

FormatLimits FormatLimits::of(const FloatFormat& format) {
  FormatLimits limits;
  limits.zero_up_to = static_cast<float>(format.min_subnormal() / 2);  // a tie goes to even, zero
  limits.normal_from = static_cast<float>(format.min_normal());
  bool whole = format.specials == Specials::integer;  // its places do not grow with the number
  double half_place =
      whole ? 0.5 : std::ldexp(1.0, format.max_exponent() - format.mantissa_bits - 1);
  auto tie = static_cast<float>(format.max() + half_place);
  bool tie_overflows = (format.max_magnitude() & 1) == 1;
  limits.finite_up_to = tie_overflows ? std::nextafter(tie, 0.0f) : tie;
  return limits;
}

FormatLimits FormatLimits::times(float scale) const {
  return {zero_up_to * scale, normal_from * scale, finite_up_to * scale};
}

void FormatLoss::add(std::span<const float> values, const FormatLimits& limits) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  detail::LossCounts counts = kernels().count_losses(
      values.data(), static_cast<int64_t>(values.size()),
      {std::bit_cast<uint32_t>(limits.zero_up_to), std::bit_cast<uint32_t>(limits.normal_from),
       std::bit_cast<uint32_t>(std::min(limits.finite_up_to, kLargest))});
  add({counts.to_zero, counts.subnormal, counts.beyond});
}

void FormatLoss::add(const FormatLoss& other) {
  to_zero += other.to_zero;
  subnormal += other.subnormal;
  beyond += other.beyond;
}

double TensorStats::mean() const {
  int64_t finite = count - nonfinite;
  return finite > 0 ? sum / static_cast<double>(finite) : 0;
}

double TensorStats::std_dev() const {
  double square = rms() * rms() - mean() * mean();
  return square > 0 ? std::sqrt(square) : 0;
}

double TensorStats::rms() const {
  int64_t finite = count - nonfinite;
  return finite > 0 ? std::sqrt(sum_squares / static_cast<double>(finite)) : 0;
}

void TensorStats::add(std::span<const float> values) {
  detail::NumberCounts counts = kernels().count(values.data(), static_cast<int64_t>(values.size()));
  TensorStats part;
  part.count = static_cast<int64_t>(values.size());
  part.zeros = counts.zeros;
  part.nonfinite = counts.nonfinite;
  part.sum = counts.sum;
  part.sum_squares = counts.sum_squares;
  bool any = counts.smallest <= counts.largest;
  if (any) {
    part.abs_min = std::bit_cast<float>(counts.smallest);
    part.abs_max = std::bit_cast<float>(counts.largest);
  }
  count_binades(values, part.binades);
  part.binades[0] -= counts.zeros;
  add(part);
}

void TensorStats::add(const TensorStats& other) {
  bool first = abs_max == 0;
  count += other.count;
  zeros += other.zeros;
  nonfinite += other.nonfinite;
  sum += other.sum;
  sum_squares += other.sum_squares;
  if (other.abs_max > 0) abs_min = first ? other.abs_min : std::min(abs_min, other.abs_min);
  abs_max = std::max(abs_max, other.abs_max);
  for (size_t i = 0; i < binades.size(); ++i) binades[i] += other.binades[i];
}

}  // namespace sigma1
