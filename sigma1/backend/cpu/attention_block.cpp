#include "sigma1/backend/cpu/attention_block.h"

#include <algorithm>
#include <cmath>

#include "sigma1/backend/cpu/gemm.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/base/parallel.h"
#include "sigma1/ops/attention.h"

namespace sigma1::cpu {
namespace {

constexpr size_t kRelative = 3;

void reverse_rows(const Buffer& positions, int64_t width, float* reversed) {
  int64_t rows = positions.shape[0];
  parallel_for(static_cast<size_t>(rows), 64, [&](size_t begin, size_t end) {
    for (auto row = static_cast<int64_t>(begin); row < static_cast<int64_t>(end); ++row) {
      float* to = reversed + (rows - 1 - row) * width;
      const float* from = load(positions, row * width, width, to);
      if (from != to) std::copy_n(from, width, to);
    }
  });
}

void hide(const float* mask, float* scores, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    if (!(mask[j] > 0)) scores[j] = -INFINITY;
  }
}

// With −infinity where the mask hides a key.
void fill_logits(const AttentionDims& dims, const AttentionBlock& block, const AttentionInputs& in,
                 float* room) {
  Gemm product{.m = block.rows,
               .n = block.keys,
               .k = dims.d,
               .transpose_b = true,
               .lda = dims.width,
               .ldb = dims.width,
               .ldc = block.keys + 1,
               .alpha = dims.temperature};
  const float* q = in.q + block.query_at;
  if (dims.has_relative) {
    gemm(product, q, in.positions + block.position_at, room);
    product.beta = 1;
  }
  product.ldc = block.keys;
  gemm(product, q, in.k + block.key_at, room + block.offset);
  std::fill_n(room, block.offset, 0.0F);
  if (!dims.has_mask) return;
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = room + block.offset + i * block.keys;
    hide(in.mask + block.batch * dims.tk, row, block.visible(dims, i));
  }
}

}  // namespace

AttentionDims::AttentionDims(const Launch& launch)
    : batch(launch.in(0).shape[0]),
      tq(launch.in(0).shape[1]),
      tk(launch.in(1).shape[1]),
      width(launch.in(0).shape[2]),
      heads(launch.attr<int64_t>("heads")),
      d(width / heads),
      causal(launch.attr<bool>("causal")),
      has_relative(launch.attr<bool>("has_relative")),
      has_mask(launch.attr<bool>("has_mask")),
      temperature(static_cast<float>(launch.attr<double>("multiplier") /
                                     std::sqrt(static_cast<double>(d)))),
      result_scale(static_cast<float>(1 / launch.attributes.get_or(kResultFactor, 1.0))),
      mask_at(has_relative ? kRelative + 1 : kRelative),
      dy_at(mask_at + (has_mask ? 1 : 0)) {}

AttentionRooms::AttentionRooms(Arena& arena, const Launch& launch, const AttentionDims& dims)
    : q(arena.like(launch.in(0))), k(arena.like(launch.in(1))), v(arena.like(launch.in(2))) {
  if (dims.has_mask) mask = arena.like(launch.in(dims.mask_at));
  size_t inputs = launch.inputs.size();
  if (inputs > dims.dy_at) dy = arena.like(launch.in(dims.dy_at));
  if (inputs > dims.result_at()) result = arena.like(launch.in(dims.result_at()));
  if (inputs > dims.logs_at()) logs = arena.like(launch.in(dims.logs_at()));
  if (dims.has_relative) positions = arena.floats(dims.tk * dims.width);
}

AttentionInputs AttentionRooms::load(const Launch& launch, const AttentionDims& dims) const {
  if (dims.has_relative) reverse_rows(launch.in(kRelative), dims.width, positions);
  auto loaded = [&](size_t input, float* room) {
    return input < launch.inputs.size() ? load_whole(launch.in(input), room) : nullptr;
  };
  return {loaded(0, q),
          loaded(1, k),
          loaded(2, v),
          dims.has_mask ? loaded(dims.mask_at, mask) : nullptr,
          loaded(dims.dy_at, dy),
          loaded(dims.result_at(), result),
          loaded(dims.logs_at(), logs),
          positions};
}

AttentionBlock::AttentionBlock(const AttentionDims& dims, int64_t pair, int64_t index)
    : batch(pair / dims.heads),
      head(pair % dims.heads),
      first(index * AttentionDims::kRows),
      rows(std::min(AttentionDims::kRows, dims.tq - first)),
      keys(dims.causal ? first + rows : dims.tk),
      offset(dims.has_relative ? rows - 1 : 0),
      query_at((batch * dims.tq + first) * dims.width + head * dims.d),
      key_at(batch * dims.tk * dims.width + head * dims.d),
      position_at((dims.tk - keys) * dims.width + head * dims.d),
      log_at(pair * dims.tq + first) {}

void attention_weights(const AttentionDims& dims, const AttentionBlock& block,
                       const AttentionInputs& in, float* room, float* inverse_sums, float* logs) {
  fill_logits(dims, block, in, room);
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = room + block.offset + i * block.keys;
    int64_t visible = block.visible(dims, i);
    float largest = vectors().largest(row, visible);
    bool sees = largest != -INFINITY;
    float sum = sees ? vectors().exp_sum(row, row, visible, 1, largest) : 0;
    inverse_sums[i] = sees ? 1 / sum : 0;
    if (logs != nullptr) logs[i] = sees ? largest + std::log(sum) : 0;
    std::fill(row + (sees ? visible : 0), row + block.keys, 0.0F);
  }
}

void attention_probabilities(const AttentionDims& dims, const AttentionBlock& block,
                             const AttentionInputs& in, float* room) {
  if (in.logs == nullptr) {
    float inverse_sums[AttentionDims::kRows];
    attention_weights(dims, block, in, room, inverse_sums);
    for (int64_t i = 0; i < block.rows; ++i) {
      float* row = room + block.offset + i * block.keys;
      vectors().scale(row, row, block.visible(dims, i), inverse_sums[i]);
    }
    return;
  }
  fill_logits(dims, block, in, room);
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = room + block.offset + i * block.keys;
    int64_t visible = block.visible(dims, i);
    vectors().exp_sum(row, row, visible, 1, in.logs[block.log_at + i]);
    std::fill(row + visible, row + block.keys, 0.0F);
  }
}

}  // namespace sigma1::cpu
