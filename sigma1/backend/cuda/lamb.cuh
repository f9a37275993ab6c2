// What LAMB must know before it can go a step: how long parameters and directions are. Squares are
// added up chunk by chunk, alone in update.cu as in bundle_lamb.cu, so that both give the same
// bits. Nothing is written until the rate is known: directions are then found again, as in 16 bits
// this moves no more bytes than to keep them in fp32, and needs no memory. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/fold.cuh"
#include "sigma1/backend/cuda/update.cuh"

namespace sigma1::cuda {

// Sums of squares.
struct alignas(16) Squares {
  double of_param = 0, of_direction = 0;

  __device__ void add(const Four& param, const Four& direction) {
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      double p = param.at[k], d = direction.at[k];
      of_param += p * p;
      of_direction += d * d;
    }
  }
  __device__ void add(const Squares& other) {
    of_param += other.of_param;
    of_direction += other.of_direction;
  }
  // Of all threads of a block.
  __device__ Squares of_block() const {
    return {block_fold(of_param, Plus()), block_fold(of_direction, Plus())};
  }
};

// This thread's of a chunk. What lies behind the end is zero, and so is its direction.
__device__ inline Squares squares_of(const Adam& adam, const Corrections& inverse,
                                     const StepChunk& chunk) {
  Squares sum;
  for (int i = 0; i < StepChunk::kFours; ++i) {
    int64_t first = chunk.four(i);
    if (first >= chunk.end) break;
    AdamFour now = read_four(adam, first);
    sum.add(now.param, advanced(adam.rule, inverse, now).direction);
  }
  return sum;
}

// Of a tensor, by one block. `limit` 0: none.
__device__ inline double lamb_rate(const Squares* of_chunks, int64_t chunks, const Rate& rate,
                                   double limit) {
  Squares sum;
  for (int64_t i = threadIdx.x; i < chunks; i += kThreads) sum.add(of_chunks[i]);
  sum = sum.of_block();
  double of_param = ::sqrt(sum.of_param), of_direction = ::sqrt(sum.of_direction);
  double ratio = of_param > 0 && of_direction > 0 ? of_param / of_direction : 1;
  if (limit > 0) ratio = fmin(ratio, limit);
  return rate() * ratio;
}

}  // namespace sigma1::cuda
