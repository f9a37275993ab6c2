// Activations in every instruction set this machine has, against the same in double.
#include <array>
#include <cstring>

#include "sigma1/ops/pointwise_math.h"
#include "tests/backend/instruction_sets.h"

namespace sigma1::cpu {
namespace {

using VectorKernelsTest = EachInstructionSet;

// Both signs, every exponent in [lowest, highest], many mantissas.
Floats dense(int lowest, int highest, int each = 4001) {
  Floats x;
  for (int exponent = lowest; exponent <= highest; ++exponent) {
    for (int k = 0; k < each; ++k) {
      float value = std::ldexp(1 + static_cast<float>(k) / static_cast<float>(each), exponent);
      x.insert(x.end(), {value, -value});
    }
  }
  return x;
}

int64_t size_of(const Floats& x) { return static_cast<int64_t>(x.size()); }

Floats activated(Activation f, const Floats& x, float factor = 1) {
  Floats y(x.size());
  vectors().activation(f, x.data(), y.data(), size_of(x), factor);
  return y;
}

Floats slopes(Activation f, const Floats& x, const Floats& dy, float factor = 1) {
  Floats dx(x.size());
  vectors().activation_grad(f, x.data(), dy.data(), dx.data(), size_of(x), factor);
  return dx;
}

// A function in double, whose formula may differ from pointwise_math.h's where that one cancels.
struct Formula {
  Activation f;
  double (*value)(double);
  // The terms of the derivative: where they cancel, the error is that of the larger.
  std::array<double, 2> (*derivative)(double);
  double value_ulps, derivative_ulps;
};

double logistic(double x) { return pointwise::logistic(x); }
double gelu_tanh_inner(double x) { return pointwise::GeluTanh::inner(x); }

const Formula kFormulas[] = {
    {Activation::relu, [](double x) { return std::max(x, 0.0); },
     [](double x) {
       return std::array{x > 0 ? 1.0 : 0.0, 0.0};
     },
     0, 0},
    {Activation::gelu, pointwise::Gelu::value<double>,
     [](double x) {
       return std::array{pointwise::normal_cdf(x), x * pointwise::normal_pdf(x)};
     },
     5, 5},
    {Activation::gelu_tanh, [](double x) { return x * logistic(2 * gelu_tanh_inner(x)); },
     [](double x) {
       double s = logistic(2 * gelu_tanh_inner(x)), rest = logistic(-2 * gelu_tanh_inner(x));
       return std::array{s, 2 * x * s * rest * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x)};
     },
     3, 3},
    {Activation::tanh, pointwise::Tanh::value<double>,
     [](double x) {
       return std::array{4 * logistic(2 * x) * logistic(-2 * x), 0.0};
     },
     2, 5},
    {Activation::sigmoid, logistic,
     [](double x) {
       return std::array{logistic(x) * logistic(-x), 0.0};
     },
     3, 5},
    {Activation::silu, pointwise::Silu::value<double>,
     [](double x) {
       return std::array{logistic(x), x * logistic(x) * logistic(-x)};
     },
     5, 5},
    {Activation::softplus, pointwise::Softplus::value<double>,
     [](double x) {
       return std::array{logistic(x), 0.0};
     },
     2, 3},
    {Activation::exp, pointwise::Exp::value<double>,
     [](double x) {
       return std::array{std::exp(x), 0.0};
     },
     1, 1},
    {Activation::log, pointwise::Log::value<double>,
     [](double x) {
       return std::array{1 / x, 0.0};
     },
     1, 1},
};

TEST_P(VectorKernelsTest, ActivationsAreWithinUnitsOfTheLastPlace) {
  Floats x = dense(-30, 6);
  Floats ones(x.size(), 1);
  for (const Formula& formula : kFormulas) {
    Floats y = activated(formula.f, x), dx = slopes(formula.f, x, ones);
    double worst = 0, worst_slope = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      // tanh's approximation of Φ has an argument that grows with the cube of x, and its error with
      // it.
      double grown = formula.f == Activation::gelu_tanh ? std::fabs(gelu_tanh_inner(x[i])) : 0;
      double want = formula.value(x[i]);
      worst = std::max(worst, ulps(y[i], want, std::fabs(want)) - 6 * grown);
      auto [first, second] = formula.derivative(x[i]);
      double size = std::max(std::fabs(first), std::fabs(second));
      worst_slope = std::max(worst_slope, ulps(dx[i], first + second, size) - 6 * grown);
    }
    SCOPED_TRACE(static_cast<int>(formula.f));
    EXPECT_LE(worst, formula.value_ulps);
    EXPECT_LE(worst_slope, formula.derivative_ulps);
  }
}

TEST_P(VectorKernelsTest, LogarithmsOfEveryMagnitudeAreRight) {
  Floats x = dense(-149, 127, 501);
  Floats y = activated(Activation::log, x);
  for (size_t i = 0; i < x.size(); ++i) {
    double want = std::log(static_cast<double>(x[i]));
    ASSERT_LE(ulps(y[i], want, std::fabs(want)), 1) << x[i];
  }
}

TEST_P(VectorKernelsTest, ExponentialsReachToBothEnds) {
  Floats x{88.7f, 88.72283f, 88.7229f, 1000, -87.3f, -87.4f, -100, -103.9f, -104.5f, -1000};
  Floats y = activated(Activation::exp, x);
  for (size_t i = 0; i < x.size(); ++i) {
    double want = std::exp(static_cast<double>(x[i]));
    EXPECT_LE(ulps(y[i], want, want), 1) << x[i];
  }
  EXPECT_EQ(y[2], kInf);
  EXPECT_GT(y[6], 0) << "subnormal numbers are kept";
  EXPECT_EQ(y[9], 0);
}

void expect_same(const Floats& got, const Floats& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(got[i])) << i << ": " << got[i];
    } else {
      EXPECT_EQ(got[i], want[i]) << i;
      EXPECT_EQ(std::signbit(got[i]), std::signbit(want[i])) << i;
    }
  }
}

TEST_P(VectorKernelsTest, SpecialValuesAreWhatTheyShouldBe) {
  Floats x{0.f, -0.f, kInf, -kInf, kNan};
  auto check = [&](Activation f, Floats value, Floats slope) {
    SCOPED_TRACE(static_cast<int>(f));
    expect_same(activated(f, x), value);
    expect_same(slopes(f, x, Floats(x.size(), 1)), slope);
  };
  // −∞·0 is NaN in the formula too.
  check(Activation::relu, {0, 0, kInf, 0, 0}, {0, 0, 1, 0, 0});
  check(Activation::gelu, {0, -0.f, kInf, kNan, kNan}, {.5f, .5f, 1, 0, kNan});
  check(Activation::gelu_tanh, {0, -0.f, kInf, kNan, kNan}, {.5f, .5f, 1, 0, kNan});
  check(Activation::tanh, {0, -0.f, 1, -1, kNan}, {1, 1, 0, 0, kNan});
  check(Activation::sigmoid, {.5f, .5f, 1, 0, kNan}, {.25f, .25f, 0, 0, kNan});
  check(Activation::exp, {1, 1, kInf, 0, kNan}, {1, 1, kInf, 0, kNan});
  check(Activation::log, {-kInf, -kInf, kInf, kNan, kNan}, {kInf, -kInf, 0, -0.f, kNan});
  Floats softplus = activated(Activation::softplus, x);
  expect_same({softplus.begin() + 2, softplus.end()}, {kInf, 0, kNan});
}

// Computed at once, and from every element on: the same bits.
template <class Body>
void expect_position_free(Body body) {
  Floats whole(kCount);
  body(0, kCount, whole.data());
  for (int64_t first = 1; first < kCount; ++first) {
    Floats part(static_cast<size_t>(kCount - first));
    body(first, kCount - first, part.data());
    ASSERT_EQ(std::memcmp(part.data(), whole.data() + first, part.size() * sizeof(float)), 0)
        << "from " << first;
  }
}

TEST_P(VectorKernelsTest, ResultsDoNotDependOnThePosition) {
  const VectorKernels& v = vectors();
  Floats x = normal_numbers(kCount, "x"), y = normal_numbers(kCount, "y");
  for (int f = 0; f < kActivations; ++f) {
    auto function = static_cast<Activation>(f);
    expect_position_free([&](int64_t i, int64_t n, float* z) {
      v.activation(function, &x[static_cast<size_t>(i)], z, n, 1.7f);
    });
    expect_position_free([&](int64_t i, int64_t n, float* z) {
      v.activation_grad(function, x.data() + i, y.data() + i, z, n, 1.7f);
    });
  }
  expect_position_free(
      [&](int64_t i, int64_t n, float* z) { v.combine(&x[0] + i, &y[0] + i, z, n, 1.1f, 0.3f); });
  expect_position_free([&](int64_t i, int64_t n, float* z) {
    v.normalise(x.data() + i, y.data() + i, x.data() + i, z, n, {0.1f, 1.3f}, 0.7f);
  });
  expect_position_free(
      [&](int64_t i, int64_t n, float* z) { v.exp_sum(x.data() + i, z, n, 0.7f, 0.2f); });
  expect_position_free([&](int64_t i, int64_t n, float* z) {
    Floats m = y, mean_square(kCount, 0.5f);
    AdamConstants constants{.beta1 = .9f,
                            .beta2 = .99f,
                            .epsilon = 1e-8f,
                            .weight_decay = .1f,
                            .gradient_scale = 1,
                            .complement1 = .1f,
                            .complement2 = .01f,
                            .inverse_correction1 = 2,
                            .inverse_correction2 = 3,
                            .decoupled = true};
    v.adam_direction(x.data() + i, y.data() + i, m.data() + i, mean_square.data() + i, z, n,
                     constants);
  });
}

INSTANTIATE_TEST_SUITE_P(All, VectorKernelsTest, kInstructionSets);

}  // namespace
}  // namespace sigma1::cpu
