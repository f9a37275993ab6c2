// The chains that norms make with what stands around them in a Transformer.
#pragma once

#include "tests/gpu/row_chain_case.h"

namespace sigma1 {

struct LineChainSizes {
  int64_t rows, width;
  std::string format = "fp16";
  bool casts = false;  // the result to 8 bits, wanted in both orientations
  bool blank = false;
};

struct LineChainKind {
  const char* name;
  RowChainCase (*make)(const Device& device, const LineChainSizes& sizes);
};
std::vector<LineChainKind> line_chain_kinds();

// Whether a step's result is wanted in both orientations.
bool is_turned(const RowChainCase& chain, size_t step);

}  // namespace sigma1
