// Runs everything that is local to a row as one kernel: products with shared weights, norms and
// their gradients, pointwise ops. A block owns some rows, what passes between its steps stays in
// shared memory, and the weights of all products stream through it as one sequence of tiles that
// runs ahead of the computation.
#pragma once

#include <memory>
#include <vector>

#include "sigma1/backend/device.h"

namespace sigma1::cuda {

// Whether a node may be a step of a row chain: row i of its output depends on row i of its row
// inputs alone, and formats and sizes are ones that the kernel handles. Data need not be set.
bool is_row_local(const OpDef& op, const Launch& launch);

// Whether row-local steps, in an order in which they can be run, go into one kernel with so many
// rows to a block. Data need not be set; weights, biases and the inputs of other shapes must not be
// computed in the chain.
bool fits_rows(std::span<const ChainStep> steps, int rows_of_block = 16);

// Results with memory are stored there, rounded like those of the steps' own kernels; so are those
// without, which later steps read.
class RowChain : public Chain {
 public:
  // Throws Bug when the steps do not fit. A block has 16 rows or 32; 0: by their number.
  explicit RowChain(std::vector<ChainStep> steps, int rows_of_block = 0);
  ~RowChain() override;
  void run(uint64_t step) override;

 private:
  struct Ready;
  std::unique_ptr<const Ready> ready_;
};

}  // namespace sigma1::cuda
