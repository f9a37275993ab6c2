// The ops that no op feeds: where a graph's values come from.
#pragma once

#include "sigma1/graph/op.h"

namespace sigma1 {

extern const OpDef input_op;      // attribute with_gradient
extern const OpDef parameter_op;  // attributes distribution, std_dev, mean
extern const OpDef constant_op;   // attribute value

bool is_source(const OpDef& op);

}  // namespace sigma1
