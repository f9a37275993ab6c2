// What convolution on tensor cores and the gradient of its weights share: rows of a sample in
// shared memory. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/conv_tensor.cuh"
#include "sigma1/backend/cuda/mma.cuh"
#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {

inline constexpr int kTile = 16;  // channels of a result that a block computes
// Behind a row in shared memory, so that eight rows at the same place lie in different banks.
inline constexpr int kGap = 8;

// Of x or y.
struct Side {
  int time, channels, group;  // group: channels of one
};

inline Side side_of_x(const ConvDims& d) {
  return {static_cast<int>(d.time), static_cast<int>(d.c_in), static_cast<int>(d.group_in())};
}
inline Side side_of_y(const ConvDims& d) {
  return {static_cast<int>(d.time_out), static_cast<int>(d.c_out), static_cast<int>(d.group_out())};
}

// Rows [first, first + count) of one sample, channels [channel, channel + width), zeros outside
// [0, time).
template <class Element>
__device__ void stage_rows(const Element* from, int batch, int time, int channels, int first,
                           int count, int channel, int width, Element* to) {
  int packs = width / 8;
  for (int i = static_cast<int>(threadIdx.x); i < count * packs;
       i += static_cast<int>(blockDim.x)) {
    int row = i / packs, x = i % packs * 8, t = first + row;
    bool inside = 0 <= t && t < time;
    int64_t at = (int64_t{batch} * time + (inside ? t : 0)) * channels + channel + x;
    copy_16_async(to + row * (width + kGap) + x, from + at, inside);
  }
}

}  // namespace sigma1::cuda
