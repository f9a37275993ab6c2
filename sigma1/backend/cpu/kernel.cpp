#include "sigma1/backend/cpu/kernel.h"

#include <algorithm>
#include <vector>

namespace sigma1::cpu {

const float* load(const Buffer& buffer, int64_t first, int64_t count, float* room) {
  if (buffer.codec == nullptr) return buffer.floats() + first;
  buffer.codec->decode(buffer.data + first * buffer.codec->bytes(), room, count);
  if (buffer.scale) {
    for (int64_t i = 0; i < count; ++i) room[i] *= *buffer.scale;
  }
  return room;
}

float load_one(const Buffer& buffer, int64_t i) {
  float room = 0;
  return *load(buffer, i, 1, &room);
}

float* target(const Buffer& buffer, int64_t first, float* room) {
  return buffer.codec == nullptr ? buffer.floats() + first : room;
}

void store(const Buffer& buffer, int64_t first, int64_t count, const float* values,
           const RandomStream& random) {
  if (buffer.codec == nullptr) {
    if (values != buffer.floats() + first) std::copy_n(values, count, buffer.floats() + first);
    return;
  }
  auto encode = [&](int64_t at, const float* from, std::byte* to, int64_t n) {
    buffer.codec->encode(from, to, n, random, static_cast<uint64_t>(at));
  };
  int64_t bytes = buffer.codec->bytes();
  std::byte* codes = buffer.data + first * bytes;
  int64_t phase = first % 4;  // a codec starts at a whole block of four random numbers
  if (phase != 0 && buffer.codec->cast().rounding == Rounding::stochastic) {
    int64_t head = std::min(4 - phase, count);
    float block[4] = {};
    std::byte block_codes[sizeof(block)];
    std::copy_n(values, head, block + phase);
    encode(first - phase, block, block_codes, 4);
    std::copy_n(block_codes + phase * bytes, head * bytes, codes);
    first += head, count -= head, values += head, codes += head * bytes;
  }
  encode(first, values, codes, count);
}

float* thread_room(size_t floats) {
  thread_local std::vector<float> room;
  if (room.size() < floats) room.resize(floats);
  return room.data();
}

}  // namespace sigma1::cpu
