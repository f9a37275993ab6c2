// The loops of tensor_stats_kernels.h in the compiler's vector types. SIGMA1_KERNELS names the
// table in that header which this build fills.
#include "sigma1/numerics/tensor_stats_kernels.h"

#include "sigma1/numerics/lanes_kernels.h"

namespace sigma1::detail {
namespace {

constexpr uint32_t kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
using Doubles = Vector<double>;
using Counts = Vector<int32_t>;

// Signed, because x86 compares signed words only; magnitudes have no sign bit.
Mask magnitudes(Floats x) { return reinterpret_cast<Mask>(as_words(x) & kMagnitude); }
Mask word(uint32_t value) { return Mask{} + static_cast<int32_t>(value); }

template <class Lanes>
double total(const Lanes& lanes) {
  double sum = 0;
  for (size_t i = 0; i < kLanes; ++i) sum += static_cast<double>(lanes[i]);
  return sum;
}

struct Accumulator {
  Counts zeros{}, nonfinite{};
  Doubles sum{}, sum_squares{};
  Mask smallest = word(kMagnitude), largest{};

  void add(Floats x) {
    Mask magnitude = magnitudes(x);
    Mask is_zero = magnitude == 0, is_finite = magnitude < word(kInfinity);
    Mask is_plain = is_finite & ~is_zero;
    zeros -= is_zero;
    nonfinite += is_finite + 1;
    Doubles finite = __builtin_convertvector(
        as_floats(as_words(x) & reinterpret_cast<Words>(is_finite)), Doubles);
    sum += finite;
    sum_squares += finite * finite;
    Mask low = is_plain ? magnitude : word(kMagnitude);
    smallest = low < smallest ? low : smallest;
    Mask high = magnitude & is_plain;
    largest = high > largest ? high : largest;
  }
};

// The last vector of an array that is not whole, filled up with zeros.
Floats load_part(const float* from, int64_t n) {
  float whole[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) whole[i] = from[i];
  return load(whole);
}

NumberCounts count(const float* values, int64_t n) {
  constexpr auto kStep = static_cast<int64_t>(kLanes);
  Accumulator all;
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) all.add(load(values + i));
  if (i < n) all.add(load_part(values + i, n - i));
  int64_t filled = i < n ? kStep - (n - i) : 0;
  NumberCounts result{static_cast<int64_t>(total(all.zeros)) - filled,
                      static_cast<int64_t>(total(all.nonfinite)),
                      total(all.sum),
                      total(all.sum_squares),
                      kMagnitude,
                      0};
  for (size_t lane = 0; lane < kLanes; ++lane) {
    auto low = static_cast<uint32_t>(all.smallest[lane]);
    auto high = static_cast<uint32_t>(all.largest[lane]);
    if (low < result.smallest) result.smallest = low;
    if (high > result.largest) result.largest = high;
  }
  return result;
}

LossCounts count_losses(const float* values, int64_t n, LimitBits limits) {
  constexpr auto kStep = static_cast<int64_t>(kLanes);
  Counts to_zero{}, subnormal{}, beyond{};
  auto add = [&](Floats x) {
    Mask magnitude = magnitudes(x);
    Mask vanishes = (magnitude > 0) & (magnitude <= word(limits.zero_up_to));
    to_zero -= vanishes;
    subnormal -= (magnitude > 0) & ~vanishes & (magnitude < word(limits.normal_from));
    beyond -= magnitude > word(limits.finite_up_to);
  };
  int64_t i = 0;
  for (; i + kStep <= n; i += kStep) add(load(values + i));
  if (i < n) add(load_part(values + i, n - i));
  return {static_cast<int64_t>(total(to_zero)), static_cast<int64_t>(total(subnormal)),
          static_cast<int64_t>(total(beyond))};
}

}  // namespace

const TensorStatsKernels SIGMA1_KERNELS{count, count_losses};

}  // namespace sigma1::detail
