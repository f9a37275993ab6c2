// What attention and its gradient share: a block of queries of one head, and what it attends to.
#pragma once

#include "sigma1/backend/cpu/whole.h"

namespace sigma1::cpu {

struct AttentionDims {
  // Queries handled together: their scores stay in the second-level cache, and causal blocks waste
  // little above the diagonal.
  static constexpr int64_t kRows = 64;

  int64_t batch, tq, tk, width, heads, d;
  bool causal, has_relative, has_mask;
  float temperature;      // of the logits: multiplier · d^-½
  float result_scale;     // makes the result that was kept of what is read of it
  size_t mask_at, dy_at;  // which inputs

  explicit AttentionDims(const Launch& launch);
  size_t result_at() const { return dy_at + 1; }
  size_t logs_at() const { return dy_at + 2; }
  int64_t pairs() const { return batch * heads; }
  int64_t blocks() const { return (tq + kRows - 1) / kRows; }
  int64_t score_floats() const { return aligned(kRows * (tk + 1)); }
};

// The inputs as fp32.
struct AttentionInputs {
  const float *q, *k, *v, *mask, *dy;
  const float *result, *logs;  // what forward kept; null where nothing
  const float* positions;      // relative positions [tk, width], the largest distance first
};

struct AttentionRooms {
  float *q, *k, *v, *mask = nullptr, *dy = nullptr, *result = nullptr, *logs = nullptr;
  float* positions = nullptr;

  AttentionRooms(Arena& arena, const Launch& launch, const AttentionDims& dims);
  AttentionInputs load(const Launch& launch, const AttentionDims& dims) const;
};

// Queries [first, first + rows) of one head, and the keys that any of them sees.
//
// With relative positions their scores lie skewed. Positions are kept in reverse, so that their
// product with the queries holds distance i − j in column j + rows − 1 − (i − first), in rows of
// keys + 1 numbers. The same memory in rows of keys numbers, from `offset` on, has it in column j.
// The product with the keys is added through this view, and the gradients of both products read
// one array.
struct AttentionBlock {
  int64_t batch, head, first, rows, keys, offset;
  int64_t query_at, key_at, position_at, log_at;  // of the first number of each that it needs

  AttentionBlock(const AttentionDims& dims, int64_t pair, int64_t index);
  int64_t visible(const AttentionDims& dims, int64_t row) const {
    return dims.causal ? first + row + 1 : keys;
  }
};

// e^(logit − the row's largest) into `room`, zeros where a query does not see, and 1 / the sum of
// each row, 0 where it is. The logarithms of the sums of e^logit too, where there is room for them.
void attention_weights(const AttentionDims& dims, const AttentionBlock& block,
                       const AttentionInputs& in, float* room, float* inverse_sums,
                       float* logs = nullptr);

// The weights divided by their sums, into `room`, from the logarithms where they were kept.
void attention_probabilities(const AttentionDims& dims, const AttentionBlock& block,
                             const AttentionInputs& in, float* room);

}  // namespace sigma1::cpu
