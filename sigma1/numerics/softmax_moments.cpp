#include "sigma1/numerics/softmax_moments.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "sigma1/base/error.h"

// A power of the normaliser is an integral, 1/Sᵏ = 1/(k−1)! ∫ tᵏ⁻¹ exp(−t·S) dt, and under it the
// logits are independent: E[pᵢᵃ·pⱼᵇ·…] is the integral over t of one factor
// E[(t·eᶻ)ᵃ·exp(−t·eᶻ)] for each logit named and φ(t) = E[exp(−t·eᶻ)] for each other one. With
// t = eᵘ everything is smooth and vanishes at both ends, where the trapezoidal rule converges
// exponentially.
namespace sigma1 {
namespace {

constexpr double kReach = 8;  // in standard deviations: beyond lies 1e-15 of the distribution
constexpr double kMaxScale = 1000;

// E[xᵇ·(t·eˢˣ)ᵃ·exp(−t·eˢˣ)], called aᵃ with one x for each power b.
struct Factors {
  double phi = 0;
  double a1x = 0;
  double a2 = 0, a2x = 0, a2xx = 0;
  double a3 = 0, a3x = 0, a3xx = 0;
  double a4 = 0, a4xx = 0;
};

struct NormalGrid {
  std::vector<double> x, weight;
};

// exp(−eʷ) turns over within one unit of w = u + s·x, which the step must resolve. To the right,
// where P₂² looks for logits tilted by up to (t·eˢˣ)⁴, the tail matters farther out.
NormalGrid normal_grid(double s) {
  constexpr double kTiltedReach = 12;
  double step = std::min(0.5, 0.25 / s), total = 0;
  NormalGrid grid;
  for (int i = -static_cast<int>(kReach / step); step * i < kTiltedReach; ++i) {
    double x = step * i;
    grid.x.push_back(x);
    grid.weight.push_back(std::exp(-x * x / 2));
    total += grid.weight.back();
  }
  for (double& weight : grid.weight) weight /= total;
  return grid;
}

Factors factors_at(double u, double s, const NormalGrid& grid) {
  constexpr double kAllGone = 6;  // exp(−e⁶) = 1e-175
  Factors f;
  for (size_t i = 0; i < grid.x.size(); ++i) {
    double x = grid.x[i], w = u + s * x;
    if (w > kAllGone) break;
    double e = std::exp(w), decay = grid.weight[i] * std::exp(-e);
    double first = e * decay, second = e * first, third = e * second, fourth = e * third;
    f.phi += decay;
    f.a1x += x * first;
    f.a2 += second;
    f.a2x += x * second;
    f.a2xx += x * x * second;
    f.a3 += third;
    f.a3x += x * third;
    f.a3xx += x * x * third;
    f.a4 += fourth;
    f.a4xx += x * x * fourth;
  }
  return f;
}

// A polynomial in ε up to ε³. That of (φ + ε)ⁿ has for coefficient k the ways to name k of n logits
// times φ for each other one.
using Series = std::array<double, 4>;

Series operator*(const Series& a, const Series& b) {
  Series product{};
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; i + j < a.size(); ++j) product[i + j] += a[i] * b[j];
  }
  return product;
}

Series operator+(const Series& a, const Series& b) {
  return {a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]};
}

struct Powers {
  Series power;  // (φ + ε)ⁿ
  Series sum;    // Σ of (φ + ε)ⁱ for i < n
};

// By doubling: every term is positive, where the closed form of the sum cancels for φ near 1.
Powers powers(double phi, int64_t n) {
  constexpr Series kOne{1, 0, 0, 0};
  const Series base{phi, 1, 0, 0};
  Powers result{kOne, {}};
  for (int bit = static_cast<int>(std::bit_width(static_cast<uint64_t>(n))) - 1; bit >= 0; --bit) {
    result.sum = result.sum * (kOne + result.power);
    result.power = result.power * result.power;
    if ((n >> bit & 1) == 0) continue;
    result.sum = result.sum + result.power;
    result.power = result.power * base;
  }
  return result;
}

// The integrands, for the given number of ordered ways to name one, two or three logits.
SoftmaxMoments integrands(const Factors& f, double one, double two, double three) {
  // The parts of |J·x|² = Σⱼ pⱼ²·(xⱼ − x̄)², where x̄ = Σₖ pₖ·xₖ.
  double own = one * f.a2xx;
  double cross = (one * f.a3xx + two * f.a2x * f.a1x) / 2;
  double mean_by_two = 2 * f.a3x * f.a1x + f.a2 * f.a2xx;
  double mean = (one * f.a4xx + two * mean_by_two + three * f.a2 * f.a1x * f.a1x) / 6;
  return {.p2 = one * f.a2,
          .p3 = one * f.a3 / 2,
          .p2_squared = (one * f.a4 + two * f.a2 * f.a2) / 6,
          .radial = own - 2 * cross + mean};
}

SoftmaxMoments moments(int64_t n, double s, bool causal) {
  if (n < 1) throw Error("softmax: expected at least one logit, got {}", n);
  if (!(s >= 0 && s <= kMaxScale)) {
    throw Error("softmax: expected logits with a standard deviation of 0 to {}, got {}", kMaxScale,
                s);
  }
  NormalGrid grid = normal_grid(s);
  // The normaliser lies between the least and n times the greatest term; beyond, the integrands
  // fall as t² to the left and as exp(−t) to the right.
  double begin = -std::log(static_cast<double>(n)) - kReach * s - 10, end = kReach * s + 4;
  double step = std::max(0.25, s / 16);
  SoftmaxMoments total{};
  for (int i = 0; begin + step * i < end; ++i) {
    Factors f = factors_at(begin + step * i, s, grid);
    Series ways = causal ? powers(f.phi, n + 1).sum : powers(f.phi, n).power;
    double weight = step / static_cast<double>(causal ? n : 1);
    SoftmaxMoments at = integrands(f, weight * ways[1], 2 * weight * ways[2], 6 * weight * ways[3]);
    total.p2 += at.p2;
    total.p3 += at.p3;
    total.p2_squared += at.p2_squared;
    total.radial += at.radial;
  }
  return total;
}

}  // namespace

SoftmaxMoments softmax_moments(int64_t n, double s) { return moments(n, s, false); }

SoftmaxMoments causal_softmax_moments(int64_t n, double s) { return moments(n, s, true); }

}  // namespace sigma1
