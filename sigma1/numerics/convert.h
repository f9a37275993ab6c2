// Whole arrays between fp32 and any format of up to 16 bits: vectorised, threaded, and equal to
// quantize.h bit for bit on every machine and number of threads. With a scale other than 1 the
// product x·scale is rounded to fp32 first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "sigma1/base/rng.h"
#include "sigma1/numerics/quantize.h"

namespace sigma1 {

namespace detail {
struct CastPlan;
}

// Codes of up to 8 bits take a byte, of up to 16 two. `random` serves stochastic rounding only:
// element i takes random.bits(i). Sizes must match.
void encode(std::span<const float> values, std::span<uint8_t> codes, const Cast& cast,
            const RandomStream& random = RandomStream());
void encode(std::span<const float> values, std::span<uint16_t> codes, const Cast& cast,
            const RandomStream& random = RandomStream());

void decode(std::span<const uint8_t> codes, std::span<float> values, const Cast& cast);
void decode(std::span<const uint16_t> codes, std::span<float> values, const Cast& cast);

// Every value replaced by what it becomes in the format; in place when both are the same memory.
void quantize(std::span<const float> values, std::span<float> quantized, const Cast& cast,
              const RandomStream& random = RandomStream());

// A cast prepared once, for callers that work through arrays piece by piece on threads of their
// own. fp32 is copied; every other format must have at most 16 bits.
class Codec {
 public:
  explicit Codec(const Cast& cast);

  const Cast& cast() const { return cast_; }
  int64_t bytes() const { return cast_.format.bytes(); }
  // Element i takes random.bits(first_index + i); first_index must be a multiple of four.
  void encode(const float* values, std::byte* codes, int64_t count,
              const RandomStream& random = RandomStream(), uint64_t first_index = 0) const;
  void decode(const std::byte* codes, float* values, int64_t count) const;

 private:
  Cast cast_;
  std::shared_ptr<const detail::CastPlan> plan_;  // none for fp32
};

// The instruction set in use: the best this machine has, unless one is forced (for tests). A set
// that the machine lacks is an Error.
enum class InstructionSet { baseline, avx2, avx512 };
InstructionSet instruction_set();
std::string_view to_string(InstructionSet set);
bool is_supported(InstructionSet set);
void force_instruction_set(InstructionSet set);

}  // namespace sigma1
