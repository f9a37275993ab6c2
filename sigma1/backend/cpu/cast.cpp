#include "sigma1/ops/cast.h"

#include <algorithm>

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/tiles.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/base/error.h"

namespace sigma1::cpu {
namespace {

int64_t block_count(const Launch& launch) {
  return (launch.in(0).count() + kTileBlock - 1) / kTileBlock;
}

float largest_magnitude(const Launch& launch) {
  auto* largest = reinterpret_cast<float*>(launch.workspace.data());  // one for each block
  std::fill_n(largest, block_count(launch), 0.0f);
  for_each_tile(launch.in(0).count(), [&](int64_t first, int64_t count) {
    float room[kTile];
    const float* x = load(launch.in(0), first, count, room);
    float& block = largest[first / kTileBlock];
    block = std::max(block, vectors().largest_magnitude(x, count));
  });
  return *std::max_element(largest, largest + block_count(launch));
}

void run_scaled_cast(const Launch& launch) {
  const Buffer& out = launch.out();
  if (out.scale == nullptr) throw Bug("scaled_cast: its output has no room for a scale");
  bool delayed = launch.inputs.size() == 2;
  float own = largest_magnitude(launch), known = own;
  if (delayed) {
    const float* history = launch.in(1).floats();
    float* next = launch.out(1).floats();
    known = vectors().largest_magnitude(history, kAmaxHistory);
    std::copy_backward(history, history + kAmaxHistory - 1, next + kAmaxHistory);
    next[0] = own;
  }
  float scale = cast_scale(known, out.codec->cast().format);
  *out.scale = launch.factor() / scale;
  for_each_tile(launch.in(0).count(), [&](int64_t first, int64_t count) {
    float room[kTile], scaled[kTile];
    vectors().scale(load(launch.in(0), first, count, room), scaled, count, scale);
    store(out, first, count, scaled);
  });
}

int64_t scaled_cast_workspace(const Launch& launch) {
  return block_count(launch) * static_cast<int64_t>(sizeof(float));
}

// The history moves on where it stands.
bool history_in_place(size_t input, size_t output) { return input == 1 && output == 1; }

constexpr Kernel kKernels[] = {
    {&scaled_cast_op, run_scaled_cast, scaled_cast_workspace, history_in_place}};

}  // namespace

std::span<const Kernel> cast_kernels() { return kKernels; }

}  // namespace sigma1::cpu
