// A row chain as its kernel sees it: what each step does and where in shared memory its numbers
// lie, planned once from the steps. Private to this folder.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "sigma1/backend/cuda/instructions.cuh"
#include "sigma1/backend/device.h"

namespace sigma1::cuda {

// Weights pass through shared memory in tiles of so many numbers along the sum and along the
// columns of the product.
inline constexpr int kTileDepth = 64, kTileColumns = 128;
inline constexpr int kTileBytes = kTileDepth * kTileColumns * 2;

// Tiles that shared memory has room for, by the rows of a block, and bytes of their barriers.
constexpr int stages_for(int rows_of_block) { return rows_of_block == 16 ? 6 : 4; }
inline constexpr int kBarrierBytes = 128;
// Of the sums that warps give each other.
constexpr int sharing_bytes(int rows_of_block) { return 1024 * rows_of_block; }
// Numbers of a vector that a warp brings to shared memory at once.
inline constexpr int kVectorPiece = 128;
// A kernel's parameter has room for so many matrices.
inline constexpr int kMostProducts = 24;

// Rows of numbers of 16 bits in shared memory: bf16, or fp16, which holds the 8-bit formats
// exactly. Rows begin an odd number of 16 bytes apart, so that eight of them are in different
// banks.
struct Slot {
  static constexpr int kNone = -1, kPrevious = -2;  // kPrevious: what the last instruction left
  int offset = kNone;                               // in bytes, or one of the above
  int stride = 0;                                   // in numbers
  bool bfloat = false;
};

// A bias, or the weights of a norm, in shared memory as fp32.
struct RowVector {
  int offset = Slot::kNone;
};

struct RowResult {
  std::byte* memory = nullptr;  // none where only the chain needs it
  Slot slot;                    // none where the chain does not need it, or has it at hand
  Type type{};
  bool saturates = false;
  int width = 0;
};

enum class RowOp : int { product, pointwise, norm, norm_grad };

// An op, and the pointwise ops that follow it: the thread that computes a number carries them out
// at once.
struct alignas(16) RowStep {
  RowOp op{};
  bool waits = false;  // for what other threads do in the steps before
  float factor = 1;
  Slot x, dy;
  RowResult out;            // of the op; a pointwise op has only its instructions'
  RowVector weights, bias;  // of a norm; of a product only the bias
  // Of a product: W[depth, width], or W[width, depth].
  const std::byte* matrix = nullptr;
  int depth = 0;
  bool transposed = false;
  // Of a norm.
  bool centred = false;
  float eps = 0;
  int first_instruction = 0, instructions = 0;
};

struct alignas(16) RowInstruction {
  Opcode opcode{};
  float factor = 1, multiplier = 1, second = 1;
  Slot x, y;
  bool ends = false;  // an op: its result is rounded
  RowResult out;      // of that op
};

// What is brought to shared memory before the first step.
struct RowCopy {
  const std::byte* from = nullptr;
  Type type{};
  int width = 0;               // numbers
  bool by_row = true;          // else a piece of a vector for all rows, which becomes fp32
  int offset = 0, stride = 0;  // of rows in shared memory, both in bytes

  constexpr Slot slot() const { return {offset, stride / 2}; }
};

struct RowPlan {
  std::vector<RowStep> steps;
  std::vector<RowInstruction> instructions;
  std::vector<RowCopy> copies;
  int64_t rows = 0;
  int rows_of_block = 0;
  int room = 0;            // bytes of slots and vectors
  Type type = Type::fp16;  // of all rows; fp32: they differ

  int64_t blocks() const { return (rows + rows_of_block - 1) / rows_of_block; }
  int64_t products() const { return std::ranges::count(steps, RowOp::product, &RowStep::op); }
  int code_bytes() const {
    size_t bytes = steps.size() * sizeof(RowStep) + instructions.size() * sizeof(RowInstruction) +
                   copies.size() * sizeof(RowCopy);
    return static_cast<int>((bytes + 15) / 16 * 16);
  }
  int shared_bytes() const {
    return stages_for(rows_of_block) * kTileBytes + kBarrierBytes + sharing_bytes(rows_of_block) +
           code_bytes() + room;
  }
};

// Says which steps of a plan wait.
void set_waits(RowPlan& plan);

// Nothing where steps do not go together in one kernel with so many rows to a block.
std::optional<RowPlan> plan_rows(std::span<const ChainStep> steps, int rows_of_block);

}  // namespace sigma1::cuda
