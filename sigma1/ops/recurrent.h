// The recurrent layer of the paper's character model: a highway network with tied gates.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef recurrent_highway_op, recurrent_highway_grad_op;

// x[batch, time, n_in], w[n_in + h, 2, h], bias[2, h], initial[h] → every state [batch, time, h].
// w's first n_in rows meet x_t, the others the state; of the axis of two, 0 is the gate u and 1 the
// candidate c. The plain model draws w with standard deviation (n_in+h)^-½; the unit-scaled one has
// unit w and that number as weight_scale, so that both compute the same function.
Value recurrent_highway(Value x, Value w, Value bias, Value initial, double weight_scale = 1);

}  // namespace sigma1
