// How the blocks of a cluster share the work of each step of a chain. Private to this folder.
#pragma once

#include <span>
#include <vector>

#include "sigma1/backend/device.h"

namespace sigma1::cuda {

// How a step computes its result, and who needs that how. By rows: each block has its share of the
// cluster's rows. By columns: each has a slice of the columns of all rows.
struct StepForm {
  bool by_rows = true;
  bool of_slices = false;  // a product whose terms the blocks share: each sums up its columns of x
  bool to_rows = false, to_all = false;  // columns are sent to rows, rows to all blocks
  bool to_slice = false;                 // columns stay with the block, for a product of slices
};

// Of each of row-local steps, for so many blocks.
std::vector<StepForm> forms_of(std::span<const ChainStep> steps, int blocks);

}  // namespace sigma1::cuda
