// The numbers that a thread of a row chain has at hand, four neighbours of a row, and their way to
// and from shared memory and memory. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/row_plan.cuh"
#include "sigma1/backend/cuda/tma.cuh"

namespace sigma1::cuda {

// Threads that compute; one more warp sends for weights.
constexpr int kWorkers = 512;

// Four numbers as two pairs of 16 bits.
using Pairs = uint2;

// Where four neighbours of a row begin.
struct RowPlace {
  int row, column;
};

// What all steps of a block share.
struct RowBlock {
  std::byte* slots;
  const RowInstruction* instructions;
  int64_t first_row;
  int rows;  // that exist

  __device__ std::byte* at(const Slot& slot, RowPlace place) const {
    return slots + slot.offset + (place.row * slot.stride + place.column) * 2;
  }
};

// kType is the type of all rows of a chain, fp32 where they differ: here and below.
template <Type kType>
__device__ Type type_of(const RowResult& result) {
  return kType == Type::fp32 ? result.type : kType;
}

// A result whose memory begins at the block's rows: the way from there to a number is short enough
// for 32 bits.
template <Type kType>
__device__ RowResult of_block(const RowBlock& block, RowResult result) {
  bool is_wide = type_of<kType>(result) == Type::fp16 || type_of<kType>(result) == Type::bf16;
  if (result.memory != nullptr) {
    result.memory += block.first_row * result.width << (is_wide ? 1 : 0);
  }
  return result;
}

// As numbers.
template <Type kType>
__device__ Four unpack(Pairs pairs, bool bfloat) {
  bool is_bfloat = kType == Type::fp32 ? bfloat : kType == Type::bf16;
  if (is_bfloat) {
    return {__uint_as_float(pairs.x << 16), __uint_as_float(pairs.x & 0xFFFF0000),
            __uint_as_float(pairs.y << 16), __uint_as_float(pairs.y & 0xFFFF0000)};
  }
  auto half_of = [](uint32_t bits) {
    return __half2float(__ushort_as_half(static_cast<uint16_t>(bits)));
  };
  return {half_of(pairs.x), half_of(pairs.x >> 16), half_of(pairs.y), half_of(pairs.y >> 16)};
}

template <Type kType>
__device__ Four read(const RowBlock& block, const Slot& slot, RowPlace place) {
  return unpack<kType>(*reinterpret_cast<const Pairs*>(block.at(slot, place)), slot.bfloat);
}

__device__ inline Four read(const RowBlock& block, const RowVector& vector, int column) {
  auto four = *reinterpret_cast<const float4*>(block.slots + vector.offset + column * 4);
  return {four.x, four.y, four.z, four.w};
}

template <class Element>
__device__ Pairs pack(const Four& x, bool saturates) {
  if (saturates) {
    return {packed_within<Element>(x.at[0], x.at[1]), packed_within<Element>(x.at[2], x.at[3])};
  }
  return {packed<Element>(x.at[0], x.at[1]), packed<Element>(x.at[2], x.at[3])};
}

__device__ inline uint32_t pack_bytes(const Four& x, Type type, bool saturates) {
  __nv_saturation_t saturation = saturates ? __NV_SATFINITE : __NV_NOSAT;
  __nv_fp8_interpretation_t format = type == Type::e4m3 ? __NV_E4M3 : __NV_E5M2;
  uint32_t bytes = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    bytes |= uint32_t{__nv_cvt_float_to_fp8(x.at[k], saturation, format)} << 8 * k;
  }
  return bytes;
}

// fp16 holds 8-bit formats exactly.
__device__ inline Pairs widen(uint32_t bytes, Type type) {
  View local{&bytes, type, false, nullptr, 4};
  Four four = load_four(local, 0);
  return pack<__half>(four, false);
}

// Rounds an op's results, and brings them where they are wanted; `to` is of the block.
template <Type kType>
__device__ Pairs put(const RowBlock& block, const RowResult& to, RowPlace place,
                     const Four& values) {
  Type type = type_of<kType>(to);
  bool is_stored = to.memory != nullptr && place.row < block.rows;
  int element = place.row * to.width + place.column;
  Pairs pairs;
  if (type == Type::fp16 || type == Type::bf16) {
    pairs = type == Type::fp16 ? pack<__half>(values, to.saturates)
                               : pack<__nv_bfloat16>(values, to.saturates);
    if (is_stored) __stcg(reinterpret_cast<Pairs*>(to.memory + element * 2), pairs);
  } else {
    uint32_t bytes = pack_bytes(values, type, to.saturates);
    if (is_stored) __stcg(reinterpret_cast<uint32_t*>(to.memory + element), bytes);
    pairs = widen(bytes, type);
  }
  if (to.slot.offset != Slot::kNone) *reinterpret_cast<Pairs*>(block.at(to.slot, place)) = pairs;
  return pairs;
}

}  // namespace sigma1::cuda
