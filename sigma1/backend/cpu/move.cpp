#include "sigma1/backend/cpu/move.h"

#include <cstring>

namespace sigma1::cpu {
namespace {

template <class T>
void fill(const std::byte* from, std::byte* to, int64_t count) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  std::fill_n(reinterpret_cast<T*>(to), count, value);
}

}  // namespace

int64_t element_bytes(const Buffer& buffer) {
  return buffer.codec ? buffer.codec->bytes() : static_cast<int64_t>(sizeof(float));
}

bool same_codes(const Buffer& a, const Buffer& b) {
  if (a.scale || b.scale) return false;
  if (a.codec == b.codec) return true;
  if (!a.codec || !b.codec) return false;
  const Cast &one = a.codec->cast(), &other = b.codec->cast();
  return one.format == other.format && one.rounding == other.rounding &&
         one.overflow == other.overflow && one.scale == other.scale;
}

bool moves_bytes(const Launch& launch, size_t output, size_t inputs) {
  const Buffer& out = launch.out(output);
  if (out.kind == Kind::index) return true;
  if (launch.factor(output) != 1) return false;
  auto like_output = [&](const Buffer& in) { return same_codes(in, out); };
  return std::ranges::all_of(launch.inputs.first(inputs), like_output);
}

void copy_codes(const Piece& piece, int64_t count, std::byte* to, int64_t bytes) {
  auto size = static_cast<size_t>(count * bytes);
  if (!piece.from) {
    std::memset(to, 0, size);
    return;
  }
  const std::byte* from = piece.from->data + piece.first * bytes;
  if (!piece.repeated) {
    if (from != to) std::memcpy(to, from, size);
  } else if (bytes == 1) {
    fill<uint8_t>(from, to, count);
  } else if (bytes == 2) {
    fill<uint16_t>(from, to, count);
  } else {
    fill<uint32_t>(from, to, count);
  }
}

void copy_numbers(const Piece& piece, int64_t count, float* to, float factor) {
  if (!piece.from) {
    std::fill_n(to, count, 0.0f);
  } else if (piece.repeated) {
    float room;
    std::fill_n(to, count, *load(*piece.from, piece.first, 1, &room) * factor);
  } else {
    float room[kTile];
    vectors().scale(load(*piece.from, piece.first, count, room), to, count, factor);
  }
}

}  // namespace sigma1::cpu
