// Four neighbours at a time, read as fp32 from any format and written with either rounding: wide
// accesses where the memory allows them, and one block of random words for all four.
#pragma once

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/base/philox.h"

namespace sigma1::cuda {

struct Four {
  float at[4];
};

// A tensor repeated until it has as many elements as an output.
struct Input {
  View view;
  bool packs;  // it begins where one access reaches four neighbours
};

// The step that random numbers belong to.
struct Step {
  const uint64_t* memory = nullptr;  // null: the value itself
  uint64_t value = 0;

  __device__ uint64_t operator()() const { return memory == nullptr ? value : *memory; }
};

// Where output o of a launch goes, by its format's rounding.
struct Output {
  View view;
  bool packs;
  bool stochastic = false;
  // What stochastic rounding asks of a format, as in numerics/convert_kernels.h.
  uint32_t mantissa_bits = 0, lowest_field = 0, sign_shift = 0;
  uint32_t largest = 0, overflow_code = 0, nan_code = 0;
  PhiloxKey key{};
  Step step;
};

Input input_of(const Buffer& buffer);
Output output_of(const Launch& launch, size_t o = 0);
// Of fp32 in the workspace, on 16 bytes.
Input input_of(const float* numbers, int64_t count);
Output output_of(float* numbers, int64_t count);

// Words 4·block … 4·block + 3 of a RandomStream.
__device__ inline PhiloxBlock random_block(PhiloxKey key, uint64_t step, uint64_t block) {
  return philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                 static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)},
                key);
}

// The code of a number: the stochastic rule of numerics/convert_kernels.cpp, lane by lane.
__device__ inline uint32_t stochastic_code(const Output& to, float value, uint32_t random) {
  constexpr uint32_t kSign = 0x80000000, kInfinity = 0x7F800000;
  uint32_t bits = __float_as_uint(value), x = bits & ~kSign;
  uint32_t sign = (bits & kSign) >> to.sign_shift;
  if (x > kInfinity) return to.nan_code | sign;
  uint32_t drop = 23 - to.mantissa_bits, magnitude;
  if (x >= to.lowest_field << 23) {
    uint32_t rebased = x - ((to.lowest_field - 1) << 23);
    magnitude = (rebased + (random >> (32 - drop))) >> drop;
  } else {
    uint32_t field = x >> 23, exponent = field > 1 ? field : 1;
    uint32_t significand = (x & 0x7FFFFF) | (field != 0 ? 0x800000 : 0);
    uint32_t shift = drop + to.lowest_field - exponent;
    uint32_t near_shift = shift < 31 ? shift : 31, beyond = shift - near_shift;
    uint32_t fraction = (significand << 1) << (31 - near_shift);
    fraction >>= beyond < 31 ? beyond : 31;
    magnitude = (significand >> near_shift) + (fraction > ~random ? 1 : 0);
  }
  return (magnitude > to.largest ? to.overflow_code : magnitude) | sign;
}

__device__ inline void store_code(const View& to, int64_t i, uint32_t code) {
  if (to.type == Type::bf16 || to.type == Type::fp16) {
    static_cast<uint16_t*>(to.data)[i] = static_cast<uint16_t>(code);
  } else {
    static_cast<uint8_t*>(to.data)[i] = static_cast<uint8_t>(code);
  }
}

__device__ inline void write_one(const Output& to, int64_t i, float value) {
  if (!to.stochastic) return store(to.view, i, value);
  PhiloxBlock random = random_block(to.key, to.step(), static_cast<uint64_t>(i) / 4);
  store_code(to.view, i, stochastic_code(to, value, random.word[i % 4]));
}

namespace detail {

template <class Code>
struct alignas(4 * sizeof(Code)) Pack {
  Code at[4];
};

template <class Code>
__device__ Four load_pack(const View& from, Type type, int64_t first) {
  Pack<Code> codes = static_cast<const Pack<Code>*>(from.data)[first / 4];
  View local{codes.at, type, false, from.scale, 4};
  Four result;
#pragma unroll
  for (int k = 0; k < 4; ++k) result.at[k] = load(local, k);
  return result;
}

template <class Code>
__device__ void store_pack(const View& to, Type type, int64_t first, const Four& values) {
  Pack<Code> codes;
  View local{codes.at, type, to.saturates, nullptr, 4};
#pragma unroll
  for (int k = 0; k < 4; ++k) store(local, k, values.at[k]);
  static_cast<Pack<Code>*>(to.data)[first / 4] = codes;
}

}  // namespace detail

// The type is a constant in every case, so that no other case is left in it.
__device__ inline Four load_four(const View& from, int64_t first) {
  switch (from.type) {
    case Type::bf16:
      return detail::load_pack<uint16_t>(from, Type::bf16, first);
    case Type::fp16:
      return detail::load_pack<uint16_t>(from, Type::fp16, first);
    case Type::e4m3:
      return detail::load_pack<uint8_t>(from, Type::e4m3, first);
    case Type::e5m2:
      return detail::load_pack<uint8_t>(from, Type::e5m2, first);
    case Type::index:
      return detail::load_pack<int32_t>(from, Type::index, first);
    case Type::fp32:
      break;
  }
  return detail::load_pack<float>(from, Type::fp32, first);
}

__device__ inline void store_four(const View& to, int64_t first, const Four& values) {
  switch (to.type) {
    case Type::bf16:
      return detail::store_pack<uint16_t>(to, Type::bf16, first, values);
    case Type::fp16:
      return detail::store_pack<uint16_t>(to, Type::fp16, first, values);
    case Type::e4m3:
      return detail::store_pack<uint8_t>(to, Type::e4m3, first, values);
    case Type::e5m2:
      return detail::store_pack<uint8_t>(to, Type::e5m2, first, values);
    case Type::index:
      return detail::store_pack<int32_t>(to, Type::index, first, values);
    case Type::fp32:
      break;
  }
  detail::store_pack<float>(to, Type::fp32, first, values);
}

// Elements [first, first + 4) of what the input becomes when it is repeated to `whole` elements;
// zeros behind the end. `first` is a multiple of four, here and below.
__device__ inline Four read(const Input& from, int64_t first, int64_t whole) {
  int64_t period = from.view.count, phase = period == whole ? first : first % period;
  bool whole_packs = period == whole || period % 4 == 0;
  if (from.packs && whole_packs && first + 4 <= whole) return load_four(from.view, phase);
  Four result{};
  for (int k = 0; k < 4 && first + k < whole; ++k) {
    result.at[k] = load(from.view, phase);
    phase = phase + 1 == period ? 0 : phase + 1;
  }
  return result;
}

// Four codes of 16 or 8 bits at once.
__device__ inline void store_codes(const View& to, int64_t first, const uint32_t (&codes)[4]) {
  if (to.type == Type::bf16 || to.type == Type::fp16) {
    static_cast<uint2*>(to.data)[first / 4] = {codes[0] | codes[1] << 16,
                                               codes[2] | codes[3] << 16};
  } else {
    static_cast<uint32_t*>(to.data)[first / 4] =
        codes[0] | codes[1] << 8 | codes[2] << 16 | codes[3] << 24;
  }
}

// The codes of elements [first, first + 4).
__device__ inline void stochastic_codes(const Output& to, int64_t first, const Four& values,
                                        uint32_t (&codes)[4]) {
  PhiloxBlock random = random_block(to.key, to.step(), static_cast<uint64_t>(first) / 4);
#pragma unroll
  for (int k = 0; k < 4; ++k) codes[k] = stochastic_code(to, values.at[k], random.word[k]);
}

__device__ inline void write_stochastic(const Output& to, int64_t first, const Four& values) {
  uint32_t codes[4];
  stochastic_codes(to, first, values, codes);
  if (to.packs && first + 4 <= to.view.count) return store_codes(to.view, first, codes);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (first + k < to.view.count) store_code(to.view, first + k, codes[k]);
  }
}

__device__ inline void write(const Output& to, int64_t first, const Four& values) {
  if (to.stochastic) return write_stochastic(to, first, values);
  if (to.packs && first + 4 <= to.view.count) return store_four(to.view, first, values);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    if (first + k < to.view.count) store(to.view, first + k, values.at[k]);
  }
}

// The thread's first element, and how far it is to its next, when each takes four.
__device__ inline int64_t first_of_thread() {
  return 4 * (int64_t{blockIdx.x} * blockDim.x + threadIdx.x);
}
__device__ inline int64_t stride_of_grid() { return 4 * int64_t{gridDim.x} * blockDim.x; }
inline int blocks_for_fours(int64_t count) { return blocks_for((count + 3) / 4); }

}  // namespace sigma1::cuda
