// The kernel of a row chain. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/row_code.cuh"
#include "sigma1/backend/cuda/row_norm.cuh"
#include "sigma1/backend/cuda/row_product.cuh"

namespace sigma1::cuda {

constexpr int kRowChainThreads = kWorkers + 32;

// Rows behind the last are zeros.
template <int kRows>
__device__ void load_rows(const RowCopy& copy, const RowBlock& block) {
  constexpr int kRowThreads = kWorkers / kRows;
  int row = static_cast<int>(threadIdx.x) / kRowThreads, groups = copy.width / 8;
  bool exists = row < block.rows;
  const std::byte* from = copy.from;
  if (exists) from += (block.first_row + row) * copy.width * 2;
  std::byte* to = block.slots + copy.offset + row * copy.stride;
  for (int group = static_cast<int>(threadIdx.x) % kRowThreads; group < groups;
       group += kRowThreads) {
    copy_16_async(to + group * 16, from + group * 16, exists);
  }
}

// From 8 to 16 bits; each number that is read is waited for.
template <int kRows>
__device__ void widen_rows(const RowCopy& copy, const RowBlock& block) {
  View view{const_cast<std::byte*>(copy.from), copy.type, false, nullptr, 0};
  int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int row = warp; row < kRows; row += kWorkers / 32) {
    for (int column = lane * 4; column < copy.width; column += 32 * 4) {
      Four values{};
      if (row < block.rows) {
        values = load_four(view, (block.first_row + row) * copy.width + column);
      }
      uint2 pairs{packed<__half>(values.at[0], values.at[1]),
                  packed<__half>(values.at[2], values.at[3])};
      *reinterpret_cast<uint2*>(block.at(copy.slot(), {row, column})) = pairs;
    }
  }
}

__device__ inline void load_vector(const RowCopy& copy, const RowBlock& block) {
  View view{const_cast<std::byte*>(copy.from), copy.type, false, nullptr, 0};
  int column = static_cast<int>(threadIdx.x) % 32 * 4;
  if (column >= copy.width) return;
  Four values = load_four(view, column);
  *reinterpret_cast<float4*>(block.slots + copy.offset + column * 4) = {values.at[0], values.at[1],
                                                                        values.at[2], values.at[3]};
}

// Rows by all warps, then vectors by one each.
template <int kRows>
__device__ void load_inputs(const RowBlock& block, const RowCopy* copies, const RowCode& code) {
#pragma unroll 1
  for (int i = 0; i < code.row_copies; ++i) {
    const RowCopy copy = copies[i];
    if (copy.type == Type::e4m3 || copy.type == Type::e5m2) {
      widen_rows<kRows>(copy, block);
    } else {
      load_rows<kRows>(copy, block);
    }
  }
  commit_copies();
  int warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll 1
  for (int i = code.row_copies + warp; i < code.copies; i += kWorkers / 32) {
    load_vector(copies[i], block);
  }
  wait_copies<0>();
}

template <int kRows, Type kType, class Stream>
__device__ void run_step(const RowBlock& block, const RowStep& step, Stream& stream,
                         TileSharing<kRows>& sharing) {
  bool fits = step.out.width <= kRowColumns;
  if (step.op == RowOp::product) {
    multiply_rows<kRows, kType>(block, step, stream, sharing);
  } else if (step.op == RowOp::pointwise) {
    apply_pointwise<kRows, kType>(block, step);
  } else if (step.op == RowOp::norm) {
    fits ? normalise_rows<kRows, kType, true>(block, step)
         : normalise_rows<kRows, kType, false>(block, step);
  } else {
    fits ? normalise_grad_rows<kRows, kType, true>(block, step)
         : normalise_grad_rows<kRows, kType, false>(block, step);
  }
}

template <int kRows>
struct RowRoom {
  TileRing<stages_for(kRows)> ring;
  alignas(16) SharedSums<kRows> sums;
};

template <int kRows, Type kType>
__device__ void run_steps(const RowCode& code, std::byte* room, RowRoom<kRows>& own) {
  const auto* steps = reinterpret_cast<const RowStep*>(room);
  const auto* instructions = reinterpret_cast<const RowInstruction*>(steps + code.steps);
  const auto* copies = reinterpret_cast<const RowCopy*>(instructions + code.instructions);
  int64_t first_row = int64_t{blockIdx.x} * kRows;
  int64_t rows = code.rows - first_row;
  RowBlock block{room + code.code_bytes, instructions, first_row,
                 static_cast<int>(rows < kRows ? rows : kRows)};
  load_inputs<kRows>(block, copies, code);
  sync_first<kWorkers>();
  TileSharing<kRows> sharing(own.sums);
  TileStream<stages_for(kRows)> stream(own.ring, sharing.part().half());
#pragma unroll 1
  for (int i = 0; i < code.steps; ++i) {
    const RowStep step = steps[i];
    if (step.waits) sync_first<kWorkers>();
    run_step<kRows, kType>(block, step, stream, sharing);
  }
}

// By the warp that sends: the first weights are on their way before the code is there.
template <int kStages>
__device__ void send_for_all(TileRing<kStages>& ring, const RowMatrices& matrices) {
  int lane = static_cast<int>(threadIdx.x) % 32;
  if (lane < matrices.count) prefetch_map(&matrices.maps[lane]);
  if (lane == 0) ring.start();
  __syncwarp();
  arrive_at_block<kRowChainThreads>();
  if (lane == 0) send_for_tiles(ring, matrices);
}

template <int kRows, Type kType>
__global__ void __launch_bounds__(kRowChainThreads, 1)
    row_chain_kernel(const RowCode code, const __grid_constant__ RowMatrices matrices) {
  using Room = RowRoom<kRows>;
  constexpr int kOwnBytes = stages_for(kRows) * kTileBytes + kBarrierBytes + sharing_bytes(kRows);
  static_assert(sizeof(Room) <= kOwnBytes);
  auto& own = *reinterpret_cast<Room*>(shared_memory());
  std::byte* room = shared_memory() + kOwnBytes;
  auto thread = static_cast<int>(threadIdx.x);
  if (thread >= kWorkers) return send_for_all(own.ring, matrices);
  for (int i = thread; i < code.code_bytes / 16; i += kWorkers) {
    reinterpret_cast<uint4*>(room)[i] = code.code[i];
  }
  sync_block<kRowChainThreads>();
  run_steps<kRows, kType>(code, room, own);
}

}  // namespace sigma1::cuda
