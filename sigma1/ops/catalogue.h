// Every op there is. A new op is added here once; tests and tools take it from here.
#pragma once

#include <span>
#include <string_view>

#include "sigma1/graph/op.h"

namespace sigma1 {

std::span<const OpDef* const> op_catalogue();

// Throws Error with the nearest name when there is none.
const OpDef& find_op(std::string_view name);

}  // namespace sigma1
