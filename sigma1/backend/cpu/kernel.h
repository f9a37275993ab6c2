// How CPU kernels read and write buffers: in pieces, as fp32 on one side and codes on the other.
#pragma once

#include "sigma1/backend/kernel.h"

namespace sigma1::cpu {

// Elements [first, first + count) as fp32: the buffer's own memory when it is fp32, else decoded
// into `room`.
const float* load(const Buffer& buffer, int64_t first, int64_t count, float* room);
float load_one(const Buffer& buffer, int64_t i = 0);
// Where to write those elements: the buffer's own memory when it is fp32, else `room`. Hand what it
// gave to store() when they are complete.
float* target(const Buffer& buffer, int64_t first, float* room);
void store(const Buffer& buffer, int64_t first, int64_t count, const float* values,
           const RandomStream& random = RandomStream());

// Room for this thread's own use until its next call; kept from call to call.
float* thread_room(size_t floats);

// Elements a kernel handles at a time: a few buffers of them stay in the first-level cache.
inline constexpr int64_t kTile = 1024;

}  // namespace sigma1::cpu
