#include "sigma1/ops/recurrent_scale.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace sigma1 {
namespace {

// Beyond, a layer is in its steady state: transients last about ten steps. Bounds the quadratic
// cost.
constexpr int64_t kLongestTime = 256;

// For pre-activations a ~ N(0, variance) of the gate u = σ(a − 1) and the candidate c = tanh(a).
struct GateMoments {
  double u = 0, u2 = 0;              // E[u], E[u²]
  double keep2 = 0;                  // E[(1−u)²]
  double u_slope = 0, u_slope2 = 0;  // E[u(1−u)], E[u²(1−u)²]
  double c2 = 0;                     // E[c²]
  double c_slope = 0, c_slope2 = 0;  // E[1−c²], E[(1−c²)²]

  double keep() const { return 1 - u; }
  // What c's own gradient and the gradient that is passed on, both through this gate, have in
  // common: E[u(1−u)] / E[1−u].
  double u_given_keep() const { return u_slope / keep(); }
};

// The trapezoidal rule converges geometrically here: the integrands are analytic for |Im z| < π/2,
// as the variance never exceeds 1, and steps of ½ leave an error near exp(−2π²).
GateMoments gate_moments(double variance) {
  constexpr double kStep = 0.5;
  constexpr int kFarthest = 14;  // steps, where the density is e^-24
  GateMoments m;
  double deviation = std::sqrt(variance);
  for (int i = -kFarthest; i <= kFarthest; ++i) {
    double z = kStep * i, a = deviation * z;
    double weight = kStep * std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
    double u = 1 / (1 + std::exp(1 - a)), c = std::tanh(a), slope = 1 - c * c;
    m.u += weight * u;
    m.u2 += weight * u * u;
    m.keep2 += weight * (1 - u) * (1 - u);
    m.u_slope += weight * u * (1 - u);
    m.u_slope2 += weight * u * u * (1 - u) * (1 - u);
    m.c2 += weight * c * c;
    m.c_slope += weight * slope;
    m.c_slope2 += weight * slope * slope;
  }
  return m;
}

// Mean-field: given their covariances over time, pre-activations are normal, independent between
// units and between u and c. What two moments in time share must be followed: c's that lean the
// same way build up in the state, and a bias meets the gradients of all steps.
class MeanField {
 public:
  MeanField(int64_t n_in, int64_t h, int64_t time)
      : size_(static_cast<size_t>(time) + 1),
        input_share_(static_cast<double>(n_in) / static_cast<double>(n_in + h)),
        state_share_(1 - input_share_),
        gates_(size_),
        c_with_last_state_(size_),
        states_(size_ * size_),
        gradients_(size_ * size_) {}

  RecurrentHighwayMoments moments() {
    for (size_t t = 1; t < size_; ++t) forward_step(t);
    gradient(size_ - 1, size_ - 1) = 1;
    for (size_t t = size_ - 1; t > 0; --t) backward_step(t);
    return moments_;
  }

 private:
  // Time 0 is the initial state; step t leads from state t − 1 to state t.
  double& state(size_t t, size_t s) { return states_[std::max(t, s) * size_ + std::min(t, s)]; }
  double& gradient(size_t t, size_t s) {
    return gradients_[std::max(t, s) * size_ + std::min(t, s)];
  }
  double steps() const { return static_cast<double>(size_ - 1); }

  // E[s_t²] and E[s_t s_s] from s_t = (1−u_t) s_{t−1} + u_t c_t. To first order in their
  // covariance, E[c_t c_s] = E[c'_t] E[c'_s] cov(a_t, a_s), where x, new at each step, has no part.
  void forward_step(size_t t) {
    const GateMoments g = gates_[t] =
        gate_moments(input_share_ + state_share_ * state(t - 1, t - 1));
    double c_with_state = 0;  // E[c_t s_s], s < t
    for (size_t s = 1; s < t; ++s) {
      double c_with_c = g.c_slope * gates_[s].c_slope * state_share_ * state(t - 1, s - 1);
      c_with_state = gates_[s].keep() * c_with_state + gates_[s].u * c_with_c;
      state(t, s) = g.keep() * state(t - 1, s) + g.u * c_with_state;
    }
    c_with_last_state_[t] = c_with_state;
    state(t, t) = g.keep2 * state(t - 1, t - 1) + g.u2 * g.c2 + 2 * g.u_slope * c_with_state;
    moments_.states += state(t, t) / steps();
  }

  // E[g_t²] and E[g_t g_s] of the whole gradient of state t, from g_{t−1} = dy_{t−1} + (1−u_t) g_t
  // + p_t, where p_t came through the weights of step t. The part of p_t through u_t changes sign
  // with c_t − s_{t−1} and is taken as independent from step to step.
  void backward_step(size_t t) {
    const GateMoments& g = gates_[t];
    double weights_with_gradient = 0;  // E[p_t g_s], s ≥ t
    for (size_t s = size_ - 1; s > t; --s) {
      gradient(t - 1, s) = g.keep() * gradient(t, s) + weights_with_gradient;
      double slopes = g.u * gates_[s].u_given_keep() * g.c_slope * gates_[s].c_slope;
      double both = slopes * gradient(t, s);  // of the gradients of a_t and a_s
      add_to_parameters(2 * both, state_share_ * state(t - 1, s - 1));
      weights_with_gradient = gates_[s].keep() * weights_with_gradient + state_share_ * both;
    }
    gradient(t - 1, t) = g.keep() * gradient(t, t) + weights_with_gradient;

    double from_c_to_state2 = g.c2 + state(t - 1, t - 1) - 2 * c_with_last_state_[t];
    double slopes2 = g.u2 * g.c_slope2 + g.u_slope2 * from_c_to_state2;
    double both2 = slopes2 * gradient(t, t);
    add_to_parameters(both2, input_share_ + state_share_ * state(t - 1, t - 1));
    double weights2 = state_share_ * both2;  // E[p_t²]
    moments_.dx += weights2 / steps();
    moments_.dinitial = g.keep2 * gradient(t, t) + 2 * g.keep() * weights_with_gradient + weights2;
    gradient(t - 1, t - 1) = 1 + moments_.dinitial;
  }

  // `gradients` sums over u and c, which each have a half of the parameters.
  void add_to_parameters(double gradients, double operands) {
    moments_.dbias += gradients / 2;
    moments_.dw += gradients * operands / 2;
  }

  RecurrentHighwayMoments moments_;
  size_t size_;
  double input_share_, state_share_;  // of the rows of w
  std::vector<GateMoments> gates_;
  std::vector<double> c_with_last_state_;   // E[c_t s_{t−1}]
  std::vector<double> states_, gradients_;  // E[s_t s_s], E[g_t g_s]
};

}  // namespace

RecurrentHighwayMoments recurrent_highway_moments(int64_t n_in, int64_t h, int64_t time) {
  int64_t followed = std::min(time, kLongestTime);
  RecurrentHighwayMoments moments = MeanField(n_in, h, followed).moments();
  double repeats = static_cast<double>(time) / static_cast<double>(followed);
  moments.dw *= repeats / static_cast<double>(n_in + h);
  moments.dbias *= repeats;
  return moments;
}

}  // namespace sigma1
