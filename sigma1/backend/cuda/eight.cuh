// Eight neighbours at a time, with the format known to the compiler: 16 bytes of fp16 in one
// access, kept as codes until they are needed. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/four.cuh"

namespace sigma1::cuda {

struct Eight {
  float at[8];

  __device__ const Eight& numbers() const { return *this; }
};

// Eight neighbours as they lie in memory: many can be under way before the first is made a number.
template <Type kType>
struct EightCodes {
  static constexpr int kWords = kType == Type::fp32                          ? 8
                                : kType == Type::fp16 || kType == Type::bf16 ? 4
                                                                             : 2;
  static constexpr int kBytes = kWords / 2;  // of a number
  uint32_t words[kWords];

  __device__ static EightCodes at(const void* data, int64_t first) {
    EightCodes codes;
    const std::byte* from = static_cast<const std::byte*>(data) + first * kBytes;
    if constexpr (kWords == 2) {
      uint2 both = *reinterpret_cast<const uint2*>(from);
      codes.words[0] = both.x;
      codes.words[1] = both.y;
    } else {
#pragma unroll
      for (int i = 0; i < kWords; i += 4) {
        uint4 four = *reinterpret_cast<const uint4*>(from + 4 * i);
        codes.words[i] = four.x;
        codes.words[i + 1] = four.y;
        codes.words[i + 2] = four.z;
        codes.words[i + 3] = four.w;
      }
    }
    return codes;
  }

  __device__ static EightCodes of(const Eight& numbers, bool saturates) {
    EightCodes codes;
    // Two of them with one instruction, where there is one for this rounding.
    if (kWords != 8 && saturates == (kWords == 2)) {
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {
        codes.put_pair(pair, numbers.at[2 * pair], numbers.at[2 * pair + 1]);
      }
      return codes;
    }
#pragma unroll
    for (int k = 0; k < 8; ++k)
      store({codes.words, kType, saturates, nullptr, 8}, k, numbers.at[k]);
    return codes;
  }

  __device__ void write(void* data, int64_t first) const {
    std::byte* to = static_cast<std::byte*>(data) + first * kBytes;
    if constexpr (kWords == 2) {
      *reinterpret_cast<uint2*>(to) = {words[0], words[1]};
    } else {
#pragma unroll
      for (int i = 0; i < kWords; i += 4) {
        *reinterpret_cast<uint4*>(to + 4 * i) = {words[i], words[i + 1], words[i + 2],
                                                 words[i + 3]};
      }
    }
  }

  __device__ Eight numbers() const {
    EightCodes codes = *this;
    Eight result;
#pragma unroll
    for (int k = 0; k < 8; ++k) result.at[k] = load({codes.words, kType, false, nullptr, 8}, k);
    return result;
  }

 private:
  // 16 bits that become infinite, 8 bits that do not.
  __device__ void put_pair(int pair, float even, float odd) {
    if constexpr (kType == Type::fp16) {
      __half2 both = __floats2half2_rn(even, odd);
      words[pair] = *reinterpret_cast<uint32_t*>(&both);
    } else if constexpr (kType == Type::bf16) {
      __nv_bfloat162 both = __floats2bfloat162_rn(even, odd);
      words[pair] = *reinterpret_cast<uint32_t*>(&both);
    } else if constexpr (kWords == 2) {
      uint32_t both = __nv_cvt_float2_to_fp8x2({even, odd}, __NV_SATFINITE,
                                               kType == Type::e4m3 ? __NV_E4M3 : __NV_E5M2);
      words[pair / 2] = pair % 2 == 0 ? both : words[pair / 2] | both << 16;
    }
  }
};

// 16 bytes of global memory that nobody writes meanwhile, words of `otherwise` where they are not
// `inside`: without a branch, so that many are asked for one after another.
__device__ inline uint4 load_16(const void* from, bool inside, uint32_t otherwise = 0) {
  uint4 result{otherwise, otherwise, otherwise, otherwise};
  asm volatile(
      "{ .reg .pred inside; setp.ne.b32 inside, %5, 0;"
      " @inside ld.global.v4.u32 {%0,%1,%2,%3}, [%4]; }"
      : "+r"(result.x), "+r"(result.y), "+r"(result.z), "+r"(result.w)
      : "l"(from), "r"(static_cast<int>(inside)));
  return result;
}

// Eight numbers of a row of n from `column` on, zeros behind its end, or where it is not `inside`.
template <Type kType>
struct ReadPacks {
  using Codes = EightCodes<kType>;
  static constexpr bool kWhole = true;  // all eight are in the row, or none
  static constexpr int kAtOnce = kType == Type::fp32 ? 4 : 8;

  __device__ static Codes read(const View& from, int64_t n, int64_t row, int64_t column,
                               bool inside = true) {
    int64_t first = row * n + column;
    inside = inside && column < n;
    if constexpr (Codes::kWords == 2) {
      return inside ? Codes::at(from.data, first) : Codes{};
    } else {
      Codes codes;
      const std::byte* at = static_cast<const std::byte*>(from.data) + first * Codes::kBytes;
#pragma unroll
      for (int i = 0; i < Codes::kWords; i += 4) {
        uint4 four = load_16(at + 4 * i, inside);
        codes.words[i] = four.x;
        codes.words[i + 1] = four.y;
        codes.words[i + 2] = four.z;
        codes.words[i + 3] = four.w;
      }
      return codes;
    }
  }
};

struct ReadEach {
  using Codes = Eight;
  static constexpr bool kWhole = false;
  static constexpr int kAtOnce = 1;

  __device__ static Codes read(const View& from, int64_t n, int64_t row, int64_t column,
                               bool inside = true) {
    Eight result{};
    if (!inside) return result;
    for (int k = 0; k < 8 && column + k < n; ++k) result.at[k] = load(from, row * n + column + k);
    return result;
  }
};

// Whether ReadPacks will do, but for the scale, which it leaves out.
inline bool packs_eight(const View& view, int64_t n) {
  bool is_narrow = view.type == Type::e4m3 || view.type == Type::e5m2;
  uintptr_t bytes = is_narrow ? 8 : 16;
  return n % 8 == 0 && view.type != Type::index &&
         reinterpret_cast<uintptr_t>(view.data) % bytes == 0;
}

// Eight neighbours of any format, as they lie in memory, where packs_eight says so.
struct AnyCodes {
  uint32_t words[8];

  __device__ static AnyCodes at(const View& from, int64_t first) {
    AnyCodes codes;
    if (from.type == Type::fp16 || from.type == Type::bf16) {
      codes.put(EightCodes<Type::fp16>::at(from.data, first));
    } else if (from.type == Type::fp32) {
      codes.put(EightCodes<Type::fp32>::at(from.data, first));
    } else {
      codes.put(EightCodes<Type::e4m3>::at(from.data, first));
    }
    return codes;
  }

  // The scale is a factor here.
  __device__ Eight numbers(const View& from) const {
    Eight result = unscaled(from.type);
    if (from.scale == nullptr) return result;
#pragma unroll
    for (float& each : result.at) each *= *from.scale;
    return result;
  }

 private:
  template <Type kType>
  __device__ void put(const EightCodes<kType>& codes) {
#pragma unroll
    for (int i = 0; i < EightCodes<kType>::kWords; ++i) words[i] = codes.words[i];
  }
  template <Type kType>
  __device__ Eight numbers_of() const {
    EightCodes<kType> codes;
#pragma unroll
    for (int i = 0; i < EightCodes<kType>::kWords; ++i) codes.words[i] = words[i];
    return codes.numbers();
  }
  __device__ Eight unscaled(Type type) const {
    switch (type) {
      case Type::fp16:
        return numbers_of<Type::fp16>();
      case Type::bf16:
        return numbers_of<Type::bf16>();
      case Type::e4m3:
        return numbers_of<Type::e4m3>();
      case Type::e5m2:
        return numbers_of<Type::e5m2>();
      default:
        return numbers_of<Type::fp32>();
    }
  }
};

__device__ inline Eight load_eight(const View& from, int64_t first) {
  return AnyCodes::at(from, first).numbers(from);
}

__device__ inline void store_eight(const View& to, int64_t first, const Eight& numbers) {
  switch (to.type) {
    case Type::fp16:
      return EightCodes<Type::fp16>::of(numbers, to.saturates).write(to.data, first);
    case Type::bf16:
      return EightCodes<Type::bf16>::of(numbers, to.saturates).write(to.data, first);
    case Type::e4m3:
      return EightCodes<Type::e4m3>::of(numbers, to.saturates).write(to.data, first);
    case Type::e5m2:
      return EightCodes<Type::e5m2>::of(numbers, to.saturates).write(to.data, first);
    default:
      return EightCodes<Type::fp32>::of(numbers, to.saturates).write(to.data, first);
  }
}

// Calls body(reader) with the type known to the compiler.
template <class Body>
__device__ void with_reader(Type type, bool packs, Body body) {
  if (!packs) return body(ReadEach());
  switch (type) {
    case Type::fp16:
      return body(ReadPacks<Type::fp16>());
    case Type::bf16:
      return body(ReadPacks<Type::bf16>());
    case Type::e4m3:
      return body(ReadPacks<Type::e4m3>());
    case Type::e5m2:
      return body(ReadPacks<Type::e5m2>());
    default:
      return body(ReadPacks<Type::fp32>());
  }
}

}  // namespace sigma1::cuda
