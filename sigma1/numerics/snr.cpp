#include "sigma1/numerics/snr.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

double density(double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); }
double upper_tail(double z) { return std::erfc(z / std::numbers::sqrt2) / 2; }

// |z| with P(|Z| <= |z|) = probability, by bisection.
double central_quantile(double probability) {
  double low = 0, high = 40;
  for (int i = 0; i < 100; ++i) {
    double middle = (low + high) / 2;
    (1 - 2 * upper_tail(middle) < probability ? low : high) = middle;
  }
  return low;
}

constexpr double kFarthest = 12;      // in σ: no double sees the density beyond
constexpr double kNearest = 0x1p-40;  // in σ: what lies below adds less than 2^-120 to the noise

// Five-point Gauss–Legendre on pieces short enough for the density to be a polynomial to it.
template <class Function>
double integrate(double begin, double end, Function f) {
  constexpr double kNodes[] = {0, 0.5384693101056831, 0.9061798459386640};
  constexpr double kWeights[] = {0.5688888888888889, 0.4786286704993665, 0.2369268850561891};
  end = std::min(end, kFarthest);
  if (begin >= end) return 0;
  auto pieces = static_cast<int>(std::ceil((end - begin) / 0.5));
  double half = (end - begin) / pieces / 2, sum = 0;
  for (int piece = 0; piece < pieces; ++piece) {
    double middle = begin + (2 * piece + 1) * half;
    sum += kWeights[0] * f(middle);
    for (int i : {1, 2}) {
      sum += kWeights[i] * (f(middle - half * kNodes[i]) + f(middle + half * kNodes[i]));
    }
  }
  return sum * half;
}

// Neighbouring numbers at one distance: begin, begin + gap, …, begin + count·gap; in units of σ.
struct Binade {
  double begin, gap;
  double count;
};

double noise_of_interval(double low, double gap, Rounding rounding) {
  double high = low + gap, middle = low + gap / 2;
  switch (rounding) {
    case Rounding::nearest_even:
      return integrate(low, middle, [&](double z) { return (z - low) * (z - low) * density(z); }) +
             integrate(middle, high,
                       [&](double z) { return (high - z) * (high - z) * density(z); });
    case Rounding::toward_zero:
      return integrate(low, high, [&](double z) { return (z - low) * (z - low) * density(z); });
    case Rounding::stochastic:
      return integrate(low, high, [&](double z) { return (z - low) * (high - z) * density(z); });
  }
  throw Bug("unknown Rounding");
}

// The mean of the squared error over one gap, as a share of gap².
double mean_square_error(Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even:
      return 1.0 / 12;
    case Rounding::toward_zero:
      return 1.0 / 3;
    case Rounding::stochastic:
      return 1.0 / 6;
  }
  throw Bug("unknown Rounding");
}

double noise_of_binade(const Binade& binade, Rounding rounding) {
  double end = binade.begin + binade.count * binade.gap;
  if (end < kNearest || binade.begin > kFarthest) return 0;
  // With this many numbers in a factor of two, the density is flat across a gap to 2^-20 of itself.
  if (binade.count >= 1024 && binade.begin > 0) {
    double error = binade.gap * binade.gap * mean_square_error(rounding);
    return integrate(binade.begin, end, [&](double z) { return error * density(z); });
  }
  double noise = 0;
  for (int i = 0; i < static_cast<int>(binade.count); ++i) {
    double low = binade.begin + i * binade.gap;
    if (low > kFarthest) break;
    noise += noise_of_interval(low, binade.gap, rounding);
  }
  return noise;
}

// What the numbers above `largest` lose by becoming it, in closed form.
double noise_of_clipping(double largest) {
  return (1 + largest * largest) * upper_tail(largest) - largest * density(largest);
}

// The noise of one sign, σ = 1, for numbers up to `max_magnitude`.
double one_sided_noise(const FloatFormat& format, uint32_t max_magnitude, double unit,
                       Rounding rounding) {
  const int64_t numbers = int64_t{1} << format.mantissa_bits;
  double gap = format.min_subnormal() * unit;
  double begin = 0, noise = 0;
  for (int64_t done = 0; done < max_magnitude; done += numbers) {
    Binade binade{begin, gap, static_cast<double>(std::min(numbers, max_magnitude - done))};
    noise += noise_of_binade(binade, rounding);
    begin += binade.count * gap;
    if (done > 0) gap *= 2;  // the first normal binade still has the subnormals' gap
  }
  return noise + noise_of_clipping(begin);
}

}  // namespace

double normal_snr(const Cast& cast, double sigma) {
  check(cast);
  double unit = 1 / (sigma * cast.scale);
  if (!(sigma > 0) || !std::isnormal(unit)) {
    throw Error("sigma: expected a positive number within 2^-1000 to 2^1000, got {}", sigma);
  }
  const FloatFormat& format = cast.format;
  uint32_t largest = format.max_magnitude();
  double noise = one_sided_noise(format, largest, unit, cast.rounding);
  bool symmetric = format.specials != Specials::integer;
  noise += symmetric ? noise : one_sided_noise(format, largest + 1, unit, cast.rounding);
  return 1 / noise;
}

Cast int8_scaled_for(double outlier, Rounding rounding) {
  Cast cast{find_format("int8").format, rounding};
  cast.scale = static_cast<float>(cast.format.max() / outlier);
  return cast;
}

std::vector<OutlierFinding> outlier_findings() {
  // The paper gives E4 a maximum of 240: the format of Noune et al.
  Cast fp8{find_format("fp8_e4m3fnuz").format};
  double central_95 = central_quantile(0.95);
  auto bins = [&](const Cast& cast) { return 2.0 * encode(central_95, cast) + 1; };
  double int8_max = normal_snr(int8_scaled_for(kMaxOutlier), 1);
  double int8_median = normal_snr(int8_scaled_for(kMedianOutlier), 1);
  double int8_max_truncated = normal_snr(int8_scaled_for(kMaxOutlier, Rounding::toward_zero), 1);
  double int8_median_truncated =
      normal_snr(int8_scaled_for(kMedianOutlier, Rounding::toward_zero), 1);
  double fp8_snr = normal_snr(fp8, 1);
  const std::string normal = "non-outliers N(0, 1), not cut off at 6; ";
  return {
      {"log2 of the 5 % quantile of |x|", std::log2(central_quantile(0.05)), -4,
       "central 90 % of a folded unit normal (Appendix C)"},
      {"log2 of the 95 % quantile of |x|", std::log2(central_95), 1, "the same"},
      {"SNR, INT8 scaled for the maximum outlier", int8_max, 2.03,
       normal + "scale 127/180, to nearest even"},
      {"  the same, rounded toward zero", int8_max_truncated, 2.03, "as a plain integer cast does"},
      {"SNR, INT8 scaled for the median outlier", int8_median, 14.8,
       normal + "scale 127/60, to nearest even"},
      {"  the same, rounded toward zero", int8_median_truncated, 14.8,
       "as a plain integer cast does"},
      {"SNR, FP8 E4", fp8_snr, 1290,
       normal + "fp8_e4m3fnuz (maximum 240), unscaled, to nearest even"},
      {"SNR of FP8 E4 over INT8 for the maximum", fp8_snr / int8_max, 635, "the rows above"},
      {"bins used by INT8", bins(int8_scaled_for(kMaxOutlier)), 3,
       "codes that the central 95 % of N(0, 1) round to, both signs and zero"},
      {"bins used by FP8 E4", bins(fp8), 90, "the same"},
  };
}

}  // namespace sigma1
