// Nodes that only cut a tensor along its last axis, or put one together, need not run where all
// that read or write the parts step over the rest of a row: then the parts lie inside the whole.
#pragma once

#include <vector>

#include "sigma1/backend/device.h"

namespace sigma1 {

struct RowParts {
  int node = 0;  // the split or concat
  Value whole;
  struct Part {
    Value value;
    int64_t first = 0;  // numbers of a row before it
  };
  std::vector<Part> parts;
};

std::vector<RowParts> find_row_parts(const Graph& graph, const Device& device);

}  // namespace sigma1
