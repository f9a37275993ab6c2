// Unit scaling takes what enters an operation to be normal, so that a scale is a moment under the
// normal distribution. Here is that integral, for functions with kinks, steps and poles anywhere.
#pragma once

#include <array>
#include <functional>

namespace sigma1 {

// E[f(z)] for z ~ N(0, 1), to ten digits where f is smooth, nine across a kink or a step, two at
// a pole like |z|^-0.8; in the same bits on every run. Infinite where the expectation does not
// exist, NaN where f is NaN within 12 standard deviations. Throws Error when f varies too fast to
// follow.
double normal_expectation(const std::function<double(double)>& f);

// Three at once. Where one integrand is hard, all are looked at closely: a steep step in f shows
// where f' has a spike too narrow to be met by chance.
std::array<double, 3> normal_expectations(
    const std::function<std::array<double, 3>(double)>& functions);

}  // namespace sigma1
