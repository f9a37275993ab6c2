#include "sigma1/backend/cpu/attention_block.h"

#include <algorithm>
#include <cmath>

#include "sigma1/backend/cpu/gemm.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/base/parallel.h"

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
      mask_at(has_relative ? kRelative + 1 : kRelative),
      dy_at(mask_at + (has_mask ? 1 : 0)) {}

AttentionRooms::AttentionRooms(Arena& arena, const Launch& launch, const AttentionDims& dims,
                               bool with_dy)
    : q(arena.like(launch.in(0))), k(arena.like(launch.in(1))), v(arena.like(launch.in(2))) {
  if (dims.has_mask) mask = arena.like(launch.in(dims.mask_at));
  if (with_dy) dy = arena.like(launch.in(dims.dy_at));
  if (dims.has_relative) positions = arena.floats(dims.tk * dims.width);
}

AttentionInputs AttentionRooms::load(const Launch& launch, const AttentionDims& dims) const {
  if (dims.has_relative) reverse_rows(launch.in(kRelative), dims.width, positions);
  bool has_dy = launch.inputs.size() > dims.dy_at;
  return {load_whole(launch.in(0), q),
          load_whole(launch.in(1), k),
          load_whole(launch.in(2), v),
          dims.has_mask ? load_whole(launch.in(dims.mask_at), mask) : nullptr,
          has_dy ? load_whole(launch.in(dims.dy_at), dy) : nullptr,
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
      position_at((dims.tk - keys) * dims.width + head * dims.d) {}

void attention_weights(const AttentionDims& dims, const AttentionBlock& block,
                       const AttentionInputs& in, float* room, float* inverse_sums) {
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
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = room + block.offset + i * block.keys;
    int64_t visible = block.visible(dims, i);
    if (dims.has_mask) hide(in.mask + block.batch * dims.tk, row, visible);
    float largest = vectors().largest(row, visible);
    bool sees = largest != -INFINITY;
    inverse_sums[i] = sees ? 1 / vectors().exp_sum(row, row, visible, 1, largest) : 0;
    std::fill(row + (sees ? visible : 0), row + block.keys, 0.0F);
  }
}

}  // namespace sigma1::cpu
