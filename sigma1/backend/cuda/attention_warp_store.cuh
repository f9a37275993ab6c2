// Storing 16 rows of results of one head by the warp that has them, whatever else the warp has
// under way: nothing is called, and nobody else is waited for. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_tall_grad.cuh"

namespace sigma1::cuda {

// Bytes of shared memory that a warp has for it.
inline constexpr int kStoreBytes = kWarpRows * kPanelBytes;

// Whether it takes a tensor: those that a few instructions round to.
inline bool takes_warp_stores(const View& to) {
  bool is_narrow = to.type == Type::e4m3 || to.type == Type::e5m2;
  return reinterpret_cast<uintptr_t>(to.data) % 16 == 0 && to.scale == nullptr &&
         to.type != Type::index && (to.type == Type::fp32 || to.saturates == is_narrow);
}

template <class Size>
struct WarpStore {
  static_assert(Size::kHead == kPanel);
  using Results = typename Size::Results;

  const Attention& a;
  const TallGradient& gradient;
  int64_t start;    // of the first row in the tensor
  int rows;         // that exist
  std::byte* room;  // kStoreBytes
  int lane;

  // Rows from `first` on of tensors of `of_sample` rows a sample.
  __device__ WarpStore(const Attention& of, const Pair& at, const TallGradient& to,
                       int64_t of_sample, int first, std::byte* store_room)
      : a(of),
        gradient(to),
        start((at.batch * of_sample + first) * to.pitch + at.head * of.d),
        rows(static_cast<int>(of_sample) - first),
        room(store_room) {
    // Asked for anew: what follows from it is not to be kept in registers from store to store.
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  }

  __device__ __forceinline__ void operator()(float factor, const Results& sums) const {
    __syncwarp();  // what lay there may still be read
    switch (gradient.to.type) {
      case Type::fp16:
        pack<__half>(factor, sums);
        return copy<2>();
      case Type::bf16:
        pack<__nv_bfloat16>(factor, sums);
        return copy<2>();
      case Type::e4m3:
        pack_bytes<__NV_E4M3>(factor, sums);
        return copy<1>();
      case Type::e5m2:
        pack_bytes<__NV_E5M2>(factor, sums);
        return copy<1>();
      default:
        store_floats(factor, sums);
    }
  }

 private:
  template <class Element>
  __device__ __forceinline__ void pack(float factor, const Results& sums) const {
#pragma unroll
    for (int n = 0; n < Size::kTiles; n += 2) {
      uint32_t words[4];
#pragma unroll
      for (int w = 0; w < 4; ++w) {
        const float* two = &sums[n + w / 2][w % 2 * 2];
        words[w] = packed<Element>(two[0] * factor, two[1] * factor);
      }
      uint32_t first = shared_address(room) + piece_place<kWarpRows>(lane % 16, lane / 16);
      store_matrix_x4(first ^ n * 16, words);
    }
  }
  template <__nv_fp8_interpretation_t kFormat>
  __device__ __forceinline__ void pack_bytes(float factor, const Results& sums) const {
#pragma unroll
    for (int n = 0; n < Size::kTiles * 2; ++n) {
      const float* two = &sums[n / 2][n % 2 * 2];
      float2 scaled = make_float2(two[0] * factor, two[1] * factor);
      int place = piece_place<kWarpRows>(lane / 4 + n % 2 * 8, n / 4) + n / 2 % 2 * 8;
      *reinterpret_cast<uint16_t*>(room + place + lane % 4 * 2) =
          __nv_cvt_float2_to_fp8x2(scaled, __NV_SATFINITE, kFormat);
    }
  }
  // Codes of kBytes each, in pieces of 16 bytes.
  template <int kBytes>
  __device__ __forceinline__ void copy() const {
    constexpr int kPieces = kPanel * kBytes / 16, kRows = 32 / kPieces;
    __syncwarp();
    int first = lane / kPieces, piece = lane % kPieces;
    auto* target = static_cast<std::byte*>(gradient.to.data) + piece * 16 +
                   (start + first * gradient.pitch) * kBytes;
    bool inside = piece * 16 < a.d * kBytes;
#pragma unroll 1
    for (int n = 0; n < kWarpRows; n += kRows) {
      if (inside && n + first < rows) {
        *reinterpret_cast<uint4*>(target) =
            *reinterpret_cast<const uint4*>(room + piece_place<kWarpRows>(n + first, piece));
      }
      target += kRows * gradient.pitch * kBytes;
    }
  }
  __device__ __forceinline__ void store_floats(float factor, const Results& sums) const {
    int x = lane % 4 * 2;
#pragma unroll
    for (int n = 0; n < Size::kTiles * 2; ++n) {
      int row = lane / 4 + n % 2 * 8, column = n / 2 * 8 + x;
      const float* two = &sums[n / 2][n % 2 * 2];
      auto* to = static_cast<float*>(gradient.to.data) + start + row * gradient.pitch + column;
      if (row >= rows || column >= a.d) continue;
      *reinterpret_cast<float2*>(to) = make_float2(two[0] * factor, two[1] * factor);
    }
  }
};

}  // namespace sigma1::cuda
