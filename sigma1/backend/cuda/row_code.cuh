// A row chain's plan as the parameters of its kernel. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/row_tiles.cuh"

namespace sigma1::cuda {

// The code, steps, instructions and copies one behind the other, is in memory rather than here:
// every block reads all of it at once instead of waiting for each step's.
struct RowCode {
  const uint4* code;
  int code_bytes;
  int steps, instructions, copies, row_copies;  // copies of rows come first
  int64_t rows;
};

inline RowCode code_of(const RowPlan& plan, const void* code) {
  return {.code = static_cast<const uint4*>(code),
          .code_bytes = plan.code_bytes(),
          .steps = static_cast<int>(plan.steps.size()),
          .instructions = static_cast<int>(plan.instructions.size()),
          .copies = static_cast<int>(plan.copies.size()),
          .row_copies = static_cast<int>(std::ranges::count(plan.copies, true, &RowCopy::by_row)),
          .rows = plan.rows};
}

inline std::vector<std::byte> code_bytes_of(const RowPlan& plan) {
  std::vector<std::byte> code;
  auto append = [&](const auto& elements) {
    auto bytes = std::as_bytes(std::span(elements));
    code.insert(code.end(), bytes.begin(), bytes.end());
  };
  append(plan.steps);
  append(plan.instructions);
  append(plan.copies);
  code.resize(static_cast<size_t>(plan.code_bytes()));
  return code;
}

// map_of(step): how tiles of a product's weights are found.
template <class MapOf>
RowMatrices matrices_of(const RowPlan& plan, MapOf map_of) {
  RowMatrices matrices{};
  for (const RowStep& each : plan.steps) {
    if (each.op != RowOp::product) continue;
    matrices.maps[matrices.count] = map_of(each);
    matrices.sizes[matrices.count++] = {each.out.width, each.depth, each.transposed};
  }
  return matrices;
}

}  // namespace sigma1::cuda
