// The rule of unit scaling for any elementwise function: multiply by what brings its output, and by
// what brings its gradient, to scale 1 when its input and incoming gradient are normal.
#pragma once

#include <functional>
#include <string_view>

#include "sigma1/numerics/dual.h"

namespace sigma1 {

// What is brought to 1: the standard deviation, as in the paper, or the root of the mean square.
// They differ where the mean is not zero, as after relu.
enum class Criterion { std_dev, rms };

Criterion parse_criterion(std::string_view name);  // "std" or "rms"

using ElementwiseFunction = std::function<Dual(double)>;

// Of f(x), and of its derivative, for x ~ N(0, input_scale²).
struct ElementwiseMoments {
  double mean, std_dev, rms;
  double derivative_rms;
};

// Throws Error when a moment does not exist.
ElementwiseMoments elementwise_moments(const ElementwiseFunction& f, double input_scale = 1);

// alpha·f(x) has scale 1; beta·f'(x)·g has scale 1 for an incoming gradient g of scale 1 that is
// independent of x and of mean zero, by either criterion.
struct ElementwiseScale {
  double alpha, beta;
};

// Throws Error when a scale is zero, which no factor brings to 1.
ElementwiseScale elementwise_scale(const ElementwiseMoments& moments, Criterion criterion);
ElementwiseScale elementwise_scale(const ElementwiseFunction& f, Criterion criterion,
                                   double input_scale = 1);

}  // namespace sigma1
