#include "sigma1/backend/cpu/whole.h"

#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"

namespace sigma1::cpu {
namespace {

constexpr size_t kPiece = 16 * kTile;

template <class Body>
void for_each_piece(int64_t count, Body body) {
  parallel_for(static_cast<size_t>(count), kPiece, [&](size_t begin, size_t end) {
    body(static_cast<int64_t>(begin), static_cast<int64_t>(end - begin));
  });
}

}  // namespace

float* Arena::floats(int64_t count) {
  int64_t begin = bytes_;
  bytes_ += aligned(count) * static_cast<int64_t>(sizeof(float));
  if (memory_.empty()) return nullptr;
  if (bytes_ > std::ssize(memory_)) {
    throw Bug("workspace: needs {} bytes, has {}", bytes_, memory_.size());
  }
  return reinterpret_cast<float*>(memory_.data() + begin);
}

const float* load_whole(const Buffer& buffer, float* room) {
  if (buffer.is_fp32()) return buffer.floats();
  for_each_piece(buffer.count(),
                 [&](int64_t first, int64_t count) { load(buffer, first, count, room + first); });
  return room;
}

void store_whole(const Launch& launch, size_t output, const float* values) {
  const Buffer& buffer = launch.out(output);
  if (buffer.is_fp32()) return;  // values are in place: target_whole gave the buffer itself
  for_each_piece(buffer.count(), [&](int64_t first, int64_t count) {
    store(buffer, first, count, values + first, launch.random[output]);
  });
}

void sum_rows(const float* rows, int64_t count, int64_t stride, int64_t n, float factor,
              float* result) {
  vectors().scale(rows, result, n, factor);
  for (int64_t i = 1; i < count; ++i) vectors().add_scaled(rows + i * stride, result, n, factor);
}

}  // namespace sigma1::cpu
