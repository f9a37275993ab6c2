// When do two graphs of the same ops, which differ in factors alone (α, weights of sums,
// multipliers), compute the same? When every value of the second is some s > 0 times the first's,
// with s = 1 for inputs and outputs. Each op says how the s of what it reads and gives belong
// together, and in log s all of that is linear: the s of the parameters are a solution. So a
// unit-scaled model becomes a plain one, or a plain one unit-scaled, whatever scheme chose the
// factors.
#pragma once

#include <map>
#include <string>

#include "sigma1/graph/graph.h"

namespace sigma1 {

// What each parameter of `from` has to be multiplied by to be `to`'s, so that all outputs are the
// same but for the epsilon of norms, whose inputs may have another scale. Where there is a choice,
// norms keep their numbers, then other vectors, and matrices become as large as `to` starts them:
// what only norms read would compute the same at any scale, but its gradients would not have
// theirs. Throws Error that names the node where there is
// none, and when the graphs are not of the same ops.
std::map<std::string, double> parameter_factors(const Graph& from, const Graph& to);

}  // namespace sigma1
