// Which tensors of several panels are one row of a figure, and which rows it leaves out.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sigma1/report/scale_figures.h"

namespace sigma1 {

struct ScaleRow {
  std::string name;
  std::vector<const TensorStats*> panels;  // null where a panel lacks the tensor
  bool starts_part = false;                // of the model: another layer than the row before
};

struct ScaleBlock {
  TensorRole role;
  std::vector<ScaleRow> rows;
  // So many are left out before that row.
  size_t left_out = 0, left_out_before = 0;
};

// A block for each role that has tensors; they point into the panels.
std::vector<ScaleBlock> scale_blocks(std::span<const ScalePanel> panels, size_t most_rows);

}  // namespace sigma1
