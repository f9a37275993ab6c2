// Row chains of large models: norms, their gradients and the sums and casts around them as one
// kernel at the speed of memory. A warp, or a few for wide rows, has a row in its registers from
// the first step to the last, so that each tensor is read once and what is kept is written once.
// There are no products in it: with so many rows a library's are faster. Sums over all rows of what
// passes by, gradients of norms' weights and of biases, are found on the way.
#pragma once

#include <memory>
#include <vector>

#include "sigma1/backend/device.h"

namespace sigma1::cuda {

// A row chain's blocks have 32 rows and run one to a multiprocessor, of which there are 132: with
// more rows its weights would be streamed again for each wave of them.
inline constexpr int64_t kFewRows = 132 * 32;
inline bool has_many_rows(int64_t rows) { return rows > kFewRows; }

// Whether a node may be a step of a line chain. Data need not be set, here and below.
bool is_line_local(const OpDef& op, const Launch& launch);

// Whether such steps, in this order, go into one kernel: each reads what the one before computed,
// and else only what is in memory. Sums over all rows may follow them.
bool fits_lines(std::span<const ChainStep> steps);

// Results are rounded like those of the steps' own kernels, also where they have no memory.
class LineChain : public Chain {
 public:
  // Throws Bug when the steps do not fit.
  explicit LineChain(std::span<const ChainStep> steps);
  ~LineChain() override;
  void run(uint64_t step) override;
  // Where one result at most is wanted in both orientations.
  bool turns() const override;
  int64_t workspace() const override;
  void set_workspace(std::byte* memory) override;

 private:
  struct Ready;
  std::unique_ptr<Ready> ready_;
};

}  // namespace sigma1::cuda
