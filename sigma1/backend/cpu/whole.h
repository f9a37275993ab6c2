// Whole tensors as fp32, for kernels that hand them to matrix products or read rows far apart:
// where a buffer is not fp32, a copy in the launch's workspace stands for it.
#pragma once

#include "sigma1/backend/cpu/kernel.h"

namespace sigma1::cpu {

// Cuts a workspace into arrays. A kernel plans with it twice, in the same order: once without
// memory, to learn how much it needs, and once with.
class Arena {
 public:
  explicit Arena(std::span<std::byte> memory) : memory_(memory) {}

  float* floats(int64_t count);
  // Room for the buffer's numbers; null when it is fp32 and needs none.
  float* like(const Buffer& buffer) { return buffer.is_fp32() ? nullptr : floats(buffer.count()); }
  int64_t bytes() const { return bytes_; }

 private:
  std::span<std::byte> memory_;
  int64_t bytes_ = 0;
};

// On all threads. What Arena::like gave is the room.
const float* load_whole(const Buffer& buffer, float* room);
inline float* target_whole(const Buffer& buffer, float* room) { return target(buffer, 0, room); }
void store_whole(const Launch& launch, size_t output, const float* values);

// factor · Σ of `count` rows of n numbers, in their order.
void sum_rows(const float* rows, int64_t count, int64_t stride, int64_t n, float factor,
              float* result);

// Sizes of arrays side by side in one room, so that each starts on a cache line.
constexpr int64_t aligned(int64_t floats) { return (floats + 15) / 16 * 16; }

}  // namespace sigma1::cpu
