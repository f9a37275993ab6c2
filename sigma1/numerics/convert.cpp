#include "sigma1/numerics/convert.h"

#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/numerics/convert_kernels.h"

namespace sigma1 {
namespace {

using detail::CastPlan;
using detail::ConvertKernels;
using detail::RandomPlan;
using detail::RoundingRule;

// Elements a thread takes at a time: large enough to forget the hand-over, a multiple of four so
// that no block of random numbers is split.
constexpr size_t kGrain = 1 << 16;

InstructionSet best_instruction_set() {
  for (InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2}) {
    if (is_supported(set)) return set;
  }
  return InstructionSet::baseline;
}

std::atomic<InstructionSet>& chosen_instruction_set() {
  static std::atomic<InstructionSet> chosen = best_instruction_set();
  return chosen;
}

const ConvertKernels& kernels() {
  switch (instruction_set()) {
    case InstructionSet::avx512:
      return detail::convert_kernels_avx512;
    case InstructionSet::avx2:
      return detail::convert_kernels_avx2;
    case InstructionSet::baseline:
      return detail::convert_kernels_baseline;
  }
  throw Bug("unknown InstructionSet");
}

RoundingRule rule_of(Rounding rounding) {
  switch (rounding) {
    case Rounding::nearest_even:
      return RoundingRule::nearest_even;
    case Rounding::stochastic:
      return RoundingRule::stochastic;
    case Rounding::toward_zero:
      return RoundingRule::toward_zero;
  }
  throw Bug("unknown Rounding");
}

// Beyond this an output will have left the caches before anyone reads it.
constexpr size_t kStreamingBytes = size_t{16} << 20;

float half_bound(const Cast& cast) {
  if (cast.overflow == Overflow::saturate) return static_cast<float>(cast.format.max());
  return cast.overflow == Overflow::infinity ? INFINITY : 0;
}

CastPlan make_plan(const Cast& cast, size_t output_bytes) {
  check(cast);
  const FloatFormat& format = cast.format;
  bool integer = format.specials == Specials::integer;
  bool half = format == FloatFormat{5, 10, 15, Specials::ieee};
  bool saturates = cast.overflow == Overflow::saturate;
  int lowest_exponent = integer ? format.mantissa_bits : format.min_exponent();
  int dropped_bits = 23 - format.mantissa_bits;
  if (dropped_bits < 0 || dropped_bits > 23) throw Bug("convert: a format wider than fp32");
  bool shares_subnormals = lowest_exponent == -126;
  auto quantum = static_cast<float>(format.min_subnormal());
  Cast unscaled = cast;
  unscaled.scale = 1;
  uint32_t overflow_code = encode(INFINITY, unscaled);
  auto overflow_value = static_cast<float>(decode(overflow_code, format));
  constexpr uint32_t kNever = 0xFFFFFFFF;
  return {
      .scale = cast.scale,
      .inverse_scale = 1 / cast.scale,
      .is_integer = integer,
      .is_half = half,
      .half_bound = half ? half_bound(cast) : 0,
      .streaming = output_bytes > kStreamingBytes,
      .mantissa_bits = static_cast<uint32_t>(format.mantissa_bits),
      .lowest_field = static_cast<uint32_t>(lowest_exponent + 127),
      .subnormal_rounder = std::ldexp(quantum, 23),
      .below_half = dropped_bits == 0 ? 0 : (1u << (dropped_bits - 1)) - 1,
      .ties_possible = dropped_bits == 0 ? 0u : 1u,
      .smallest_normal = shares_subnormals ? 0 : 1u << format.mantissa_bits,
      .quantum = shares_subnormals ? 0 : quantum,
      .sign_shift = static_cast<uint32_t>(32 - format.bits()),
      .magnitude_mask = format.sign_bit() - 1,
      .has_negative_zero = decode(format.sign_bit(), format) == 0,
      .largest = format.max_magnitude(),
      .largest_saturated = saturates ? format.max_magnitude() : kNever,
      .largest_unsaturated = saturates ? kNever : format.max_magnitude(),
      .overflow_code = overflow_code,
      .overflow_bits = std::bit_cast<uint32_t>(overflow_value),
      .nan_code = encode(NAN, unscaled),
      .nan_sign_mask = format.has_nan() ? kNever : 0,
      .special_bits = format.has_infinity() ? 0x7F800000u : 0x7FC00000u,
      .negative_zero_nan =
          format.specials == Specials::nan_is_neg_zero ? format.nan_code() : kNever,
  };
}

RandomPlan random_from(const RandomStream& random, uint64_t first_index) {
  return {random.key().low, random.key().high, static_cast<uint32_t>(random.step()),
          static_cast<uint32_t>(random.step() >> 32), first_index};
}

void check_sizes(size_t in, size_t out) {
  if (in != out) throw Bug("convert: {} elements in, room for {}", in, out);
}

void check_storage(const FloatFormat& format, size_t bytes) {
  if (static_cast<size_t>(format.bytes()) != bytes) {
    throw Bug("convert: a {}-bit format does not go into {} bytes", format.bits(), bytes);
  }
}

template <class Code, class Loop>
void encode_array(std::span<const float> values, std::span<Code> codes, const Cast& cast,
                  const RandomStream& random, Loop loop) {
  check_sizes(values.size(), codes.size());
  check_storage(cast.format, sizeof(Code));
  CastPlan plan = make_plan(cast, codes.size_bytes());
  parallel_for(values.size(), kGrain, [&](size_t begin, size_t end) {
    loop(values.data() + begin, codes.data() + begin, end - begin, rule_of(cast.rounding), plan,
         random_from(random, begin));
  });
}

template <class Code, class Loop>
void decode_array(std::span<const Code> codes, std::span<float> values, const Cast& cast,
                  Loop loop) {
  check_sizes(codes.size(), values.size());
  check_storage(cast.format, sizeof(Code));
  CastPlan plan = make_plan(cast, values.size_bytes());
  parallel_for(codes.size(), kGrain, [&](size_t begin, size_t end) {
    loop(codes.data() + begin, values.data() + begin, end - begin, plan);
  });
}

}  // namespace

void encode(std::span<const float> values, std::span<uint8_t> codes, const Cast& cast,
            const RandomStream& random) {
  encode_array(values, codes, cast, random, kernels().encode8);
}

void encode(std::span<const float> values, std::span<uint16_t> codes, const Cast& cast,
            const RandomStream& random) {
  encode_array(values, codes, cast, random, kernels().encode16);
}

void decode(std::span<const uint8_t> codes, std::span<float> values, const Cast& cast) {
  decode_array(codes, values, cast, kernels().decode8);
}

void decode(std::span<const uint16_t> codes, std::span<float> values, const Cast& cast) {
  decode_array(codes, values, cast, kernels().decode16);
}

void quantize(std::span<const float> values, std::span<float> quantized, const Cast& cast,
              const RandomStream& random) {
  check_sizes(values.size(), quantized.size());
  bool in_place = values.data() == quantized.data();  // then it is in the cache already
  CastPlan plan = make_plan(cast, in_place ? 0 : quantized.size_bytes());
  parallel_for(values.size(), kGrain, [&](size_t begin, size_t end) {
    kernels().quantize(values.data() + begin, quantized.data() + begin, end - begin,
                       rule_of(cast.rounding), plan, random_from(random, begin));
  });
}

Codec::Codec(const Cast& cast) : cast_(cast) {
  if (bytes() <= 2) plan_ = std::make_shared<CastPlan>(make_plan(cast, 0));
}

void Codec::encode(const float* values, std::byte* codes, int64_t count, const RandomStream& random,
                   uint64_t first_index) const {
  auto n = static_cast<size_t>(count);
  RoundingRule rule = rule_of(cast_.rounding);
  if (bytes() == 1) {
    kernels().encode8(values, reinterpret_cast<uint8_t*>(codes), n, rule, *plan_,
                      random_from(random, first_index));
  } else if (bytes() == 2) {
    kernels().encode16(values, reinterpret_cast<uint16_t*>(codes), n, rule, *plan_,
                       random_from(random, first_index));
  } else {
    std::memcpy(codes, values, n * sizeof(float));
  }
}

void Codec::decode(const std::byte* codes, float* values, int64_t count) const {
  auto n = static_cast<size_t>(count);
  if (bytes() == 1) {
    kernels().decode8(reinterpret_cast<const uint8_t*>(codes), values, n, *plan_);
  } else if (bytes() == 2) {
    kernels().decode16(reinterpret_cast<const uint16_t*>(codes), values, n, *plan_);
  } else {
    std::memcpy(values, codes, n * sizeof(float));
  }
}

InstructionSet instruction_set() { return chosen_instruction_set(); }

std::string_view to_string(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512:
      return "AVX-512";
    case InstructionSet::avx2:
      return "AVX2";
    case InstructionSet::baseline:
      return "baseline";
  }
  throw Bug("unknown InstructionSet");
}

bool is_supported(InstructionSet set) {
  switch (set) {
    case InstructionSet::avx512:
      return is_supported(InstructionSet::avx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    case InstructionSet::avx2:
      // Every processor with these three has the rest of x86-64-v3, F16C among it.
      return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
             __builtin_cpu_supports("bmi2");
    case InstructionSet::baseline:
      return true;
  }
  throw Bug("unknown InstructionSet");
}

void force_instruction_set(InstructionSet set) {
  if (!is_supported(set)) throw Error("this machine lacks the instruction set asked for");
  chosen_instruction_set() = set;
}

}  // namespace sigma1
