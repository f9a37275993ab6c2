// The chains that norms make with what stands around them in a Transformer.
#pragma once

#include "tests/gpu/row_chain_case.h"

namespace sigma1 {

struct LineChainSizes {
  int64_t rows, width;
  std::string format = "fp16";
  bool casts = false;  // the result to 8 bits, wanted in both orientations
  bool blank = false;
  // Over all rows, in kinds of gradients that can have them: those of the norm's vectors, and the
  // sum of what the cast reads.
  bool weight_sums = false, column_sum = false;
};

struct LineChainKind {
  const char* name;
  RowChainCase (*make)(const Device& device, const LineChainSizes& sizes);
};
std::vector<LineChainKind> line_chain_kinds();
// Those whose sums over all rows are found on the way.
std::vector<LineChainKind> summed_line_chain_kinds();

// Whether a step's result is wanted in both orientations.
bool is_turned(const RowChainCase& chain, size_t step);

using LineBits = RowChainCase::Contents;
// As one kernel, which stores these results, some of them in both orientations.
LineBits run_lines(const RowChainCase& chain, const std::vector<bool>& stored);
// What a chain gave, each step against its own kernel.
void expect_steps(const RowChainCase& chain, const LineBits& bits, const Device& device);
// The same with all results stored and with as few as may be, and the same bits again.
void expect_single_kernels(const RowChainCase& chain, bool on_cpu = false);
bool fits_lines(const RowChainCase& chain);

}  // namespace sigma1
