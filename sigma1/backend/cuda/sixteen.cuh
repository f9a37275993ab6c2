// Sixteen numbers at a time: four groups of four neighbours, which lie as far apart as a block's
// threads reach, so that a warp's accesses are side by side, or one below the other in a matrix, so
// that it can be turned. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/eight.cuh"

namespace sigma1::cuda {

struct Sixteen {
  float at[16];

  __device__ Eight half(int which) const {
    Eight result;
#pragma unroll
    for (int k = 0; k < 8; ++k) result.at[k] = at[8 * which + k];
    return result;
  }
  __device__ void set_half(int which, const Eight& numbers) {
#pragma unroll
    for (int k = 0; k < 8; ++k) at[8 * which + k] = numbers.at[k];
  }
};

// Where the groups begin, at multiples of four. Only `inside` of them, at least one, are there.
struct Groups {
  int64_t first, stride;
  int inside = 4;

  __device__ int64_t at(int group) const { return first + (group < inside ? group * stride : 0); }
};

// Sixteen numbers as they lie in memory: many can be under way before the first is made a number.
struct SixteenCodes {
  alignas(16) uint32_t words[16];

  // Of what the tensor becomes when it is repeated to `whole` elements.
  __device__ static SixteenCodes read(const View& from, const Groups& groups, int64_t whole) {
    SixteenCodes codes;
    if (from.type == Type::fp16 || from.type == Type::bf16) {
      codes.read_words<uint2>(from, groups, whole);
    } else if (from.type == Type::fp32) {
      codes.read_words<uint4>(from, groups, whole);
    } else {
      codes.read_words<uint32_t>(from, groups, whole);
    }
    return codes;
  }

  __device__ Sixteen numbers(const View& from) const {
    Sixteen result = unscaled(from.type);
    if (from.scale == nullptr) return result;
#pragma unroll
    for (float& each : result.at) each *= *from.scale;
    return result;
  }

  // As the view stores them, to nearest.
  __device__ static SixteenCodes of(const Sixteen& numbers, const View& to) {
    SixteenCodes codes;
    switch (to.type) {
      case Type::fp16:
        codes.encode<Type::fp16>(numbers, to.saturates);
        break;
      case Type::bf16:
        codes.encode<Type::bf16>(numbers, to.saturates);
        break;
      case Type::e4m3:
        codes.encode<Type::e4m3>(numbers, to.saturates);
        break;
      case Type::e5m2:
        codes.encode<Type::e5m2>(numbers, to.saturates);
        break;
      default:
        codes.encode<Type::fp32>(numbers, to.saturates);
    }
    return codes;
  }

  __device__ void write(const View& to, const Groups& groups) const {
    if (to.type == Type::fp16 || to.type == Type::bf16) {
      write_words<uint2>(to, groups);
    } else if (to.type == Type::fp32) {
      write_words<uint4>(to, groups);
    } else {
      write_words<uint32_t>(to, groups);
    }
  }

 private:
  // A Word holds four codes.
  template <class Word>
  __device__ static Word* place(const View& of, int64_t at) {
    constexpr int64_t kBytes = sizeof(Word) / 4;
    return reinterpret_cast<Word*>(static_cast<std::byte*>(of.data) + at * kBytes);
  }

  template <class Word>
  __device__ void read_words(const View& from, const Groups& groups, int64_t whole) {
#pragma unroll
    for (int group = 0; group < 4; ++group) {
      int64_t at = groups.at(group), period = from.count;
      if (period != whole) {
        // A remainder of 64 bits takes as long as all the rest.
        at = whole >> 32 == 0 ? static_cast<uint32_t>(at) % static_cast<uint32_t>(period)
                              : at % period;
      }
      reinterpret_cast<Word*>(words)[group] = *place<const Word>(from, at);
    }
  }

  template <class Word>
  __device__ void write_words(const View& to, const Groups& groups) const {
#pragma unroll
    for (int group = 0; group < 4; ++group) {
      if (group >= groups.inside) return;
      *place<Word>(to, groups.at(group)) = reinterpret_cast<const Word*>(words)[group];
    }
  }

  template <Type kType>
  __device__ Sixteen decode() const {
    constexpr int kWords = EightCodes<kType>::kWords;
    Sixteen result;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      EightCodes<kType> codes;
#pragma unroll
      for (int i = 0; i < kWords; ++i) codes.words[i] = words[half * kWords + i];
      result.set_half(half, codes.numbers());
    }
    return result;
  }

  template <Type kType>
  __device__ void encode(const Sixteen& numbers, bool saturates) {
    constexpr int kWords = EightCodes<kType>::kWords;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      auto codes = EightCodes<kType>::of(numbers.half(half), saturates);
#pragma unroll
      for (int i = 0; i < kWords; ++i) words[half * kWords + i] = codes.words[i];
    }
  }

  __device__ Sixteen unscaled(Type type) const {
    switch (type) {
      case Type::fp16:
        return decode<Type::fp16>();
      case Type::bf16:
        return decode<Type::bf16>();
      case Type::e4m3:
        return decode<Type::e4m3>();
      case Type::e5m2:
        return decode<Type::e5m2>();
      default:
        return decode<Type::fp32>();
    }
  }
};

}  // namespace sigma1::cuda
