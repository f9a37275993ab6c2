#include "sigma1/ops/attention.h"

#include <algorithm>
#include <array>

#include "sigma1/backend/cpu/attention_block.h"
#include "sigma1/backend/cpu/gemm.h"
#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/base/parallel.h"

namespace sigma1::cpu {
namespace {

constexpr int64_t kRows = AttentionDims::kRows;

// Calls body(i) for i in [0, count), each alone on its thread.
template <class Body>
void for_each(int64_t count, Body body) {
  parallel_for(static_cast<size_t>(count), 1,
               [&](size_t begin, size_t) { body(static_cast<int64_t>(begin)); });
}

// An array for each output that is not fp32 where it lies; y, logarithms and result, or a gradient
// for each input that has one.
using Rooms = std::array<float*, 4>;

Rooms rooms_of_outputs(Arena& arena, const Launch& launch) {
  Rooms rooms{};
  for (size_t o = 0; o < launch.outputs.size(); ++o) rooms[o] = arena.like(launch.out(o));
  return rooms;
}

// Where outputs are computed, as fp32.
Rooms targets_of(const Launch& launch, const Rooms& rooms) {
  Rooms targets{};
  for (size_t o = 0; o < launch.outputs.size(); ++o) {
    targets[o] = target_whole(launch.out(o), rooms[o]);
  }
  return targets;
}

void store_outputs(const Launch& launch, const Rooms& targets) {
  for (size_t o = 0; o < launch.outputs.size(); ++o) store_whole(launch, o, targets[o]);
}

struct ForwardPlan {
  AttentionDims dims;
  Arena arena;
  AttentionRooms inputs;
  Rooms outputs;

  explicit ForwardPlan(const Launch& launch)
      : dims(launch),
        arena(launch.workspace),
        inputs(arena, launch, dims),
        outputs(rooms_of_outputs(arena, launch)) {}
};

// `logs` may be null: where nobody keeps them.
void attend(const AttentionDims& dims, const AttentionBlock& block, const AttentionInputs& in,
            float* y, float factor, float* logs) {
  float* inverse_sums = thread_room(static_cast<size_t>(kRows + dims.score_floats()));
  float* weights = inverse_sums + kRows;
  attention_weights(dims, block, in, weights, inverse_sums, logs);
  Gemm product{.m = block.rows,
               .n = dims.d,
               .k = block.keys,
               .lda = block.keys,
               .ldb = dims.width,
               .ldc = dims.width,
               .alpha = factor};
  gemm(product, weights + block.offset, in.v + block.key_at, y + block.query_at);
  for (int64_t i = 0; i < block.rows; ++i) {
    float* row = y + block.query_at + i * dims.width;
    vectors().scale(row, row, dims.d, inverse_sums[i]);
  }
}

void keep_result(const Launch& launch, const AttentionDims& dims, const AttentionBlock& block,
                 const float* y, float* result) {
  for (int64_t i = 0; i < block.rows; ++i) {
    int64_t at = block.query_at + i * dims.width;
    vectors().scale(y + at, result + at, dims.d, launch.factor(2) / launch.factor(0));
  }
}

void run_attention(const Launch& launch) {
  ForwardPlan plan(launch);
  const AttentionDims& dims = plan.dims;
  AttentionInputs in = plan.inputs.load(launch, dims);
  Rooms to = targets_of(launch, plan.outputs);
  float *y = to[0], *logs = to[1], *result = to[2];
  // The last blocks see the most keys; first, so that no thread is left with them at the end.
  for_each(dims.pairs() * dims.blocks(), [&](int64_t i) {
    AttentionBlock block(dims, i % dims.pairs(), dims.blocks() - 1 - i / dims.pairs());
    float* kept = logs != nullptr ? logs + block.log_at : nullptr;
    attend(dims, block, in, y, launch.factor(), kept);
    if (kept != nullptr) vectors().scale(kept, kept, block.rows, launch.factor(1));
    if (result != nullptr) keep_result(launch, dims, block, y, result);
  });
  store_outputs(launch, to);
}

int64_t attention_workspace(const Launch& launch) { return ForwardPlan(launch).arena.bytes(); }

// Where many blocks add to the same gradients, each part of the blocks has its own sums; there are
// as many parts as give work to kWorkers threads.
constexpr int64_t kWorkers = 32;

struct GradPlan {
  AttentionDims dims;
  int64_t parts;
  Arena arena;
  AttentionRooms inputs;
  Rooms outputs;
  Rooms sums{};  // [parts, batch, tk, width] of dk, dv and the reversed positions

  explicit GradPlan(const Launch& launch)
      : dims(launch),
        parts(std::max<int64_t>(1, std::min(kWorkers / dims.pairs(), dims.blocks()))),
        arena(launch.workspace),
        inputs(arena, launch, dims),
        outputs(rooms_of_outputs(arena, launch)) {
    int64_t floats = parts * dims.batch * dims.tk * dims.width;
    if (parts > 1) sums[1] = arena.floats(floats);
    if (parts > 1) sums[2] = arena.floats(floats);
    if (dims.has_relative) sums[3] = arena.floats(floats);
  }
};

// The arrays one call works on: gradients of q, keys, values and positions.
struct Gradients {
  float *dq, *dk, *dv, *dpositions;
  std::array<float, 4> factors;
};

// Σ over the block's queries of weightᵀ · vectors, added to a row per key (or distance).
void add_to_keys(const AttentionDims& dims, const AttentionBlock& block, const float* weights,
                 int64_t ld, const float* queries, float* to, float alpha, bool first) {
  Gemm product{.m = block.keys,
               .n = dims.d,
               .k = block.rows,
               .transpose_a = true,
               .lda = ld,
               .ldb = dims.width,
               .ldc = dims.width,
               .alpha = alpha,
               .beta = first ? 0.0F : 1.0F};
  gemm(product, weights, queries, to);
}

// weights[rows, keys] become the gradients of the logits.
void softmax_grad(const AttentionDims& dims, const AttentionBlock& block, const AttentionInputs& in,
                  float* weights, float* dweights) {
  for (int64_t i = 0; i < block.rows; ++i) {
    int64_t visible = block.visible(dims, i), at = block.query_at + i * dims.width;
    float *p = weights + i * block.keys, *dp = dweights + i * block.keys;
    vectors().multiply(p, dp, dp, visible, 1);
    float mean = in.result != nullptr
                     ? dims.result_scale * vectors().dot(in.dy + at, in.result + at, dims.d)
                     : vectors().sum(dp, visible);
    vectors().combine(dp, p, p, visible, 1, -mean);
  }
}

void grad_queries(const AttentionDims& dims, const AttentionBlock& block, const AttentionInputs& in,
                  const float* room, const Gradients& to) {
  Gemm product{.m = block.rows,
               .n = dims.d,
               .k = block.keys,
               .lda = block.keys,
               .ldb = dims.width,
               .ldc = dims.width,
               .alpha = dims.temperature * to.factors[0]};
  gemm(product, room + block.offset, in.k + block.key_at, to.dq + block.query_at);
  if (!dims.has_relative) return;
  product.lda = block.keys + 1;
  product.beta = 1;
  gemm(product, room, in.positions + block.position_at, to.dq + block.query_at);
}

void grad_block(const AttentionDims& dims, const AttentionBlock& block, const AttentionInputs& in,
                const Gradients& to, bool first) {
  float* room = thread_room(static_cast<size_t>(2 * dims.score_floats()));
  float *weights = room + block.offset, *dweights = room + dims.score_floats();
  attention_probabilities(dims, block, in, room);
  const float *q = in.q + block.query_at, *dy = in.dy + block.query_at;
  add_to_keys(dims, block, weights, block.keys, dy, to.dv + block.key_at, to.factors[2], first);
  Gemm product{.m = block.rows,
               .n = block.keys,
               .k = dims.d,
               .transpose_b = true,
               .lda = dims.width,
               .ldb = dims.width,
               .ldc = block.keys};
  gemm(product, dy, in.v + block.key_at, dweights);
  softmax_grad(dims, block, in, weights, dweights);
  grad_queries(dims, block, in, room, to);
  add_to_keys(dims, block, weights, block.keys, q, to.dk + block.key_at,
              dims.temperature * to.factors[1], first);
  if (!dims.has_relative) return;
  int64_t at = block.batch * dims.tk * dims.width + block.position_at;
  add_to_keys(dims, block, room, block.keys + 1, q, to.dpositions + at,
              dims.temperature * to.factors[3], first);
}

// One head's columns of rows [begin, end).
void clear_rows(const AttentionDims& dims, float* rows, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) std::fill_n(rows + row * dims.width, dims.d, 0.0F);
}

// Blocks of one head, every parts-th from the last on: the first of them has the most keys, and
// what it does not reach none of them does.
void grad_part(const AttentionDims& dims, int64_t pair, int64_t part, int64_t parts,
               const AttentionInputs& in, const Gradients& to) {
  int64_t last = dims.blocks() - 1 - part;
  AttentionBlock widest(dims, pair, last);
  clear_rows(dims, to.dk + widest.key_at, widest.keys, dims.tk);
  clear_rows(dims, to.dv + widest.key_at, widest.keys, dims.tk);
  if (dims.has_relative) {
    clear_rows(dims, to.dpositions + widest.key_at, 0, dims.tk - widest.keys);
  }
  for (int64_t index = last; index >= 0; index -= parts) {
    grad_block(dims, AttentionBlock(dims, pair, index), in, to, index == last);
  }
}

// Σ of `terms` arrays of `rows` rows, in their order; row r of the result from row place(r).
template <class Place>
void sum_arrays(const float* arrays, int64_t terms, int64_t rows, int64_t width, float* result,
                Place place) {
  constexpr size_t kRowsAtOnce = 16;
  parallel_for(static_cast<size_t>(rows), kRowsAtOnce, [&](size_t begin, size_t end) {
    for (auto row = static_cast<int64_t>(begin); row < static_cast<int64_t>(end); ++row) {
      const float* first = arrays + place(row) * width;
      sum_rows(first, terms, rows * width, width, 1, result + row * width);
    }
  });
}

void run_attention_grad(const Launch& launch) {
  GradPlan plan(launch);
  const AttentionDims& dims = plan.dims;
  AttentionInputs in = plan.inputs.load(launch, dims);
  Rooms outputs = targets_of(launch, plan.outputs), sums = plan.sums;
  Gradients to{};
  for (size_t o = 0; o < launch.outputs.size(); ++o) {
    if (sums[o] == nullptr) sums[o] = outputs[o];
    to.factors[o] = launch.factor(o);
  }
  int64_t rows = dims.batch * dims.tk, floats = rows * dims.width;
  for_each(dims.pairs() * plan.parts, [&](int64_t i) {
    int64_t part = i / dims.pairs();
    Gradients mine{outputs[0], sums[1] + part * floats, sums[2] + part * floats,
                   dims.has_relative ? sums[3] + part * floats : nullptr, to.factors};
    grad_part(dims, i % dims.pairs(), part, plan.parts, in, mine);
  });
  for (size_t o : {1, 2}) {
    if (plan.parts == 1) break;
    sum_arrays(sums[o], plan.parts, rows, dims.width, outputs[o], [](int64_t row) { return row; });
  }
  if (dims.has_relative) {
    sum_arrays(sums[3], plan.parts * dims.batch, dims.tk, dims.width, outputs[3],
               [&](int64_t row) { return dims.tk - 1 - row; });
  }
  store_outputs(launch, outputs);
}

int64_t attention_grad_workspace(const Launch& launch) { return GradPlan(launch).arena.bytes(); }

constexpr Kernel kKernels[] = {
    {&attention_op, run_attention, attention_workspace},
    {&attention_grad_op, run_attention_grad, attention_grad_workspace},
    {&attention_kept_op, run_attention, attention_workspace},
    {&attention_kept_grad_op, run_attention_grad, attention_grad_workspace},
};

}  // namespace

std::span<const Kernel> attention_kernels() { return kKernels; }

}  // namespace sigma1::cpu
