#include "sigma1/numerics/gaussian.h"

#include <cmath>
#include <limits>
#include <numbers>
#include <utility>
#include <vector>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

using Triple = std::array<double, 3>;
using Functions = std::function<Triple(double)>;

constexpr double kFarthest = 30;  // of z: farther out, squares of what grows like e^(10 z) overflow
constexpr double kCore = 12;      // beyond, NaN is an overflow on the way to f, not a property of f
constexpr double kTolerance = 1e-11;  // per panel, relative to the whole
constexpr double kTailShare = 1e-8;   // what the outermost panels may hold of an integral
constexpr double kAccuracy = 1e-6;    // what may be left open when the splits run out
constexpr double kPoint = 1e-9;     // a panel this narrow that meets infinity met a pole, one point
constexpr int kDeepest = 36;        // halvings: farther down, rounding keeps panels from settling
constexpr int kMaxSplits = 10'000;  // a tenth of a second for a slow f

double density(double z) { return std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi); }

struct Panel {
  double begin, end;
};

struct Estimate {
  Triple value{}, error{};
};

// Fine where the mass is. 0, where most functions have their kink, lies inside a panel and not on
// its edge: a step on an edge looks like two constants, and the spike of its slope would be missed.
constexpr double kFine = 1.0 / 16, kCoarse = 1.0 / 4, kFirst = -kFarthest - kFine / 3;

double panel_end(double begin) {
  constexpr double kFineWithin = 8;
  return begin + (std::fabs(begin + kCoarse / 2) < kFineWithin ? kFine : kCoarse);
}

class Integrator {
 public:
  explicit Integrator(const Functions& functions) : functions_(functions) {}

  Triple integrate() {
    std::vector<std::pair<Panel, Estimate>> panels;
    Panel next{kFirst, panel_end(kFirst)};
    while (next.begin < kFarthest) {
      panels.emplace_back(next, estimate(next));
      for (int i = 0; i < 3; ++i) magnitude_[i] += std::fabs(panels.back().second.value[i]);
      next = {next.end, panel_end(next.end)};
    }
    Triple total{};
    for (const auto& [panel, rough] : panels) {
      Triple value = refined(panel, rough, kDeepest);
      for (int i = 0; i < 3; ++i) total[i] += value[i];
    }
    for (int i = 0; i < 3; ++i) {
      double tail =
          std::fabs(panels.front().second.value[i]) + std::fabs(panels.back().second.value[i]);
      if (!exists(i, tail)) total[i] = std::numeric_limits<double>::infinity();
    }
    return total;
  }

 private:
  Triple weighted(double z) const {
    Triple values = functions_(z);
    for (double& value : values) {
      value = std::isnan(value) && std::fabs(z) > kCore ? 0 : value * density(z);
    }
    return values;
  }

  // Gauss–Kronrod: the fifteen-point rule, and how far its seven-point half is from it.
  Estimate estimate(Panel panel) const {
    constexpr double kNodes[] = {
        0.991455371120812639, 0.949107912342758525, 0.864864423359769073, 0.741531185599394440,
        0.586087235467691130, 0.405845151377397167, 0.207784955007898468, 0};
    constexpr double kFifteen[] = {0.022935322010529225, 0.063092092629978553, 0.104790010322250184,
                                   0.140653259715525919, 0.169004726639267903, 0.190350578064785410,
                                   0.204432940075298892, 0.209482141084727828};
    constexpr double kSeven[] = {0, 0.129484966168869693, 0, 0.279705391489276668,
                                 0, 0.381830050505118945, 0, 0.417959183673469388};
    double middle = (panel.begin + panel.end) / 2, half = (panel.end - panel.begin) / 2;
    Estimate estimate;
    auto add = [&](double z, int node) {
      Triple values = weighted(z);
      for (int i = 0; i < 3; ++i) {
        if (std::isinf(values[i]) && half < kPoint) continue;
        estimate.value[i] += half * kFifteen[node] * values[i];
        estimate.error[i] += half * (kFifteen[node] - kSeven[node]) * values[i];
      }
    };
    add(middle, 7);
    for (int node = 0; node < 7; ++node) {
      add(middle - half * kNodes[node], node);
      add(middle + half * kNodes[node], node);
    }
    for (double& error : estimate.error) error = std::fabs(error);
    return estimate;
  }

  bool settled(const Estimate& rough) const {
    for (int i = 0; i < 3; ++i) {
      if (rough.error[i] > kTolerance * magnitude_[i]) return false;
    }
    return true;
  }

  Triple refined(Panel panel, const Estimate& rough, int halvings_left) {
    if (settled(rough)) {
      for (int i = 0; i < 3; ++i) held_[halvings_left][i] += std::fabs(rough.value[i]);
      return rough.value;
    }
    if (halvings_left == 0 || splits_left_ == 0) {
      for (int i = 0; i < 3; ++i) open_[i] += rough.error[i];
      return rough.value;
    }
    --splits_left_;
    double middle = (panel.begin + panel.end) / 2;
    Panel left{panel.begin, middle}, right{middle, panel.end};
    Estimate of_left = estimate(left), of_right = estimate(right);
    // Towards a pole the integral keeps growing; the parts away from it need no more than their
    // share of what it has become.
    for (int i = 0; i < 3; ++i) {
      double growth =
          std::fabs(of_left.value[i]) + std::fabs(of_right.value[i]) - std::fabs(rough.value[i]);
      if (growth > 0) magnitude_[i] += growth;
    }
    Triple value = refined(left, of_left, halvings_left - 1);
    Triple rest = refined(right, of_right, halvings_left - 1);
    for (int i = 0; i < 3; ++i) value[i] += rest[i];
    return value;
  }

  bool exists(int i, double tail) const {
    if (splits_left_ == 0 && open_[i] > kAccuracy * magnitude_[i]) {
      throw Error(
          "expected a function to integrate over a normal distribution, got one that "
          "varies too fast to follow");
    }
    return !(tail > kTailShare * magnitude_[i]) && !(open_[i] > 0 && grows_towards_pole(i));
  }

  // Around |z|^-p each halving adds 2^(p-1) of what the last one did: the sum ends for p < 1 only.
  bool grows_towards_pole(int i) const {
    constexpr int kCutShort = 4, kSpan = 10;  // the last few had no room to settle in
    double last = 0, before = 0;
    for (int step = 0; step < kSpan; ++step) {
      last += held_[kCutShort + step][i];
      before += held_[kCutShort + kSpan + step][i];
    }
    return last > before / 2;
  }

  const Functions& functions_;
  Triple magnitude_{};  // the integrals of the magnitudes, as far as known
  Triple open_{};       // the errors of panels that could not be split until they settled
  std::array<Triple, kDeepest + 1> held_{};  // magnitudes in settled panels, by halvings left
  int splits_left_ = kMaxSplits;
};

}  // namespace

Triple normal_expectations(const Functions& functions) { return Integrator(functions).integrate(); }

double normal_expectation(const std::function<double(double)>& f) {
  return normal_expectations([&](double z) { return Triple{f(z), 0, 0}; })[0];
}

}  // namespace sigma1
