// What the scale rule of the recurrent highway layer rests on: its moments at initialisation, which
// have no closed form because each state depends on all before it.
#pragma once

#include <cstdint>

namespace sigma1 {

// For unit-normal x, w and incoming gradient, zero bias and initial state, and pre-activations
// multiplied by (n_in+h)^-½. Mean squares over all elements; gradients that are summed over the
// batch are those of one sample. Every mean is zero, so that these are variances too.
struct RecurrentHighwayMoments {
  double states = 0, dx = 0, dw = 0, dbias = 0, dinitial = 0;
};

RecurrentHighwayMoments recurrent_highway_moments(int64_t n_in, int64_t h, int64_t time);

}  // namespace sigma1
