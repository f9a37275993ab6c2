// The inner loops of convert.cpp in the compiler's vector types: the same integer arithmetic at the
// width of whatever instruction set this build is for. SIGMA1_KERNELS names the table in that
// build.
#include "sigma1/numerics/convert_kernels.h"

#include <immintrin.h>

#include "sigma1/numerics/lanes_kernels.h"

namespace sigma1::detail {
namespace {

constexpr size_t kBlock = 1024;  // elements between two refills of the random numbers
// Further ahead than the hardware looks, which stops at the end of a page.
constexpr size_t kPrefetchBytes = 2048;
constexpr uint32_t kInfinity = 0x7F800000, kNan = 0x7FC00000, kSign = 0x80000000;

// A store past the caches, to an address aligned to the vector's size.
template <class Element>
void stream(Element* to, Vector<Element> vector) {
  constexpr size_t kBytes = sizeof(vector);
  void* address = to;
#ifdef __AVX512F__
  if constexpr (kBytes == 64)
    return _mm512_stream_si512(static_cast<__m512i*>(address), reinterpret_cast<__m512i>(vector));
#endif
#ifdef __AVX2__
  if constexpr (kBytes == 32) {
    return _mm256_stream_si256(static_cast<__m256i*>(address), reinterpret_cast<__m256i>(vector));
  }
#endif
  if constexpr (kBytes == 16) {
    return _mm_stream_si128(static_cast<__m128i*>(address), reinterpret_cast<__m128i>(vector));
  }
  store<Element>(to, vector);  // too narrow to be worth it
}

// Codes widened to words and back; bytes by way of halves, or the compiler takes them one by one.
template <class Code>
Words to_words(Vector<Code> codes) {
  if constexpr (sizeof(Code) == 1)
    return to_words<uint16_t>(__builtin_convertvector(codes, Vector<uint16_t>));
  else
    return __builtin_convertvector(codes, Words);
}

template <class Code>
Vector<Code> to_codes(Words words) {
  Vector<uint16_t> halves = __builtin_convertvector(words, Vector<uint16_t>);
  if constexpr (sizeof(Code) == 1)
    return __builtin_convertvector(halves, Vector<uint8_t>);
  else
    return halves;
}

Words larger(Words a, Words b) { return a > b ? a : b; }
Words smaller(Words a, Words b) { return a < b ? a : b; }

// Without its sign, x as a code that is not yet bounded by the format's largest. Normal numbers are
// rounded as integers, so that a carry runs into the exponent, as it should.
template <RoundingRule rule>
Words round_magnitude(Words x, const CastPlan& plan, Words random) {
  uint32_t drop = 23 - plan.mantissa_bits;
  Words rebased = x - ((plan.lowest_field - 1) << 23);
  Words truncated = rebased >> drop;
  Words is_subnormal = x < plan.lowest_field << 23 ? Words{} + 1 : Words{};
  if constexpr (rule == RoundingRule::nearest_even) {
    Words normal = (rebased + plan.below_half + (truncated & plan.ties_possible)) >> drop;
    // Adding a number whose last place is the quantum makes the addition round to it.
    Words subnormal = as_words(as_floats(x) + plan.subnormal_rounder) -
                      __builtin_bit_cast(uint32_t, plan.subnormal_rounder);
    return is_subnormal != 0 ? subnormal : normal;
  } else {
    Words exponent = larger(x >> 23, Words{} + 1);
    Words significand = (x & 0x7FFFFF) | (x >> 23 != 0 ? Words{} + 0x800000 : Words{});
    Words shift = drop + plan.lowest_field - exponent;  // meaningful for subnormals alone
    Words near_shift = smaller(shift, Words{} + 31);    // beyond 24 nothing is kept in any case
    Words kept = significand >> near_shift;
    if constexpr (rule == RoundingRule::toward_zero) return is_subnormal != 0 ? kept : truncated;
    // What is shifted out, as 32 bits; in two steps because a shift by 32 at once is undefined.
    Words fraction = (significand << 1) << (31 - near_shift);
    fraction >>= smaller(shift - near_shift, Words{} + 31);
    Words subnormal = kept + (fraction > ~random ? Words{} + 1 : Words{});
    Words normal = (rebased + ((random >> 9) >> plan.mantissa_bits)) >> drop;
    return is_subnormal != 0 ? subnormal : normal;
  }
}

// One fp32 number on its way into the format.
struct Rounded {
  Words magnitude;
  Words sign;        // fp32's
  Mask beyond, nan;  // what takes the place of the magnitude
};

template <RoundingRule rule, bool integer>
Rounded round_to_format(Floats value, const CastPlan& plan, Words random) {
  Words bits = as_words(value * plan.scale);
  Words x = bits & ~kSign;
  Words sign = bits & kSign;
  Words magnitude = round_magnitude<rule>(x, plan, random);
  Words lower_by_one = integer ? sign >> 31 : Words{};  // −128 against 127
  // An integer format has nothing else to overflow to.
  Mask beyond = integer ? Mask{} : magnitude > plan.largest_unsaturated;
  magnitude = smaller(magnitude, plan.largest_saturated + lower_by_one);
  return {magnitude, sign, beyond, x > kInfinity};
}

template <RoundingRule rule, bool integer>
Words encode_lanes(Floats value, const CastPlan& plan, Words random) {
  Rounded x = round_to_format<rule, integer>(value, plan, random);
  Words sign = x.sign >> plan.sign_shift;
  Words signed_code = integer ? (x.sign != 0 ? -x.magnitude : x.magnitude) : x.magnitude | sign;
  Words code = (x.magnitude | plan.has_negative_zero) != 0 ? signed_code : Words{};
  code = x.beyond ? plan.overflow_code | sign : code;
  return x.nan ? plan.nan_code | (sign & plan.nan_sign_mask) : code;
}

// The fp32 bits, without sign, of a finite magnitude.
Words widen(Words magnitude, const CastPlan& plan) {
  Words normal = (magnitude << (23 - plan.mantissa_bits)) + ((plan.lowest_field - 1) << 23);
  Floats count = __builtin_convertvector(reinterpret_cast<Mask>(magnitude), Floats);
  return magnitude >= plan.smallest_normal ? normal : as_words(count * plan.quantum);
}

template <RoundingRule rule, bool integer>
Floats quantize_lanes(Floats value, const CastPlan& plan, Words random) {
  Rounded x = round_to_format<rule, integer>(value, plan, random);
  Words result =
      (x.magnitude | plan.has_negative_zero) != 0 ? widen(x.magnitude, plan) | x.sign : Words{};
  result = x.beyond ? plan.overflow_bits | x.sign : result;
  return x.nan ? value : as_floats(result) * plan.inverse_scale;
}

template <bool integer>
Floats decode_lanes(Words code, const CastPlan& plan) {
  if constexpr (integer) {
    Mask extended = reinterpret_cast<Mask>(code << plan.sign_shift) >> plan.sign_shift;
    return __builtin_convertvector(extended, Floats) * plan.inverse_scale;
  } else {
    Words sign = (code << plan.sign_shift) & kSign;
    Words magnitude = code & plan.magnitude_mask;
    Words bits = widen(magnitude, plan);
    // Infinity and NaN keep their mantissa when their exponent is raised to fp32's last.
    bits = magnitude > plan.largest ? bits | plan.special_bits : bits;
    bits = code == plan.negative_zero_nan ? Words{} + kNan : bits;
    return as_floats(bits | sign) * plan.inverse_scale;
  }
}

// A part of a vector: out[i] = lanes(in[i]) for i < size < kLanes.
template <class In, class Out, class Lanes>
void map_part(const In* in, Out* out, size_t size, size_t index, Lanes lanes) {
  In padded_in[kLanes] = {};
  Out padded_out[kLanes];
  __builtin_memcpy(padded_in, in, size * sizeof(In));
  store<Out>(padded_out, lanes(load<In>(padded_in), index));
  __builtin_memcpy(out, padded_out, size * sizeof(Out));
}

// out[i] = lanes(in[i], i). Streaming keeps an output that no cache can hold from being read in
// before it is overwritten.
template <class In, class Out, class Lanes>
void map_vectors(const In* in, Out* out, size_t size, bool streaming, Lanes lanes) {
  size_t i = 0;
  if (streaming) {
    size_t misaligned = reinterpret_cast<uintptr_t>(out) % sizeof(Vector<Out>) / sizeof(Out);
    i = misaligned == 0 ? 0 : kLanes - misaligned;
    i = i < size ? i : size;
    map_part(in, out, i, 0, lanes);
    for (; i + kLanes <= size; i += kLanes) {
      __builtin_prefetch(reinterpret_cast<const char*>(in + i) + kPrefetchBytes);
      stream<Out>(out + i, lanes(load<In>(in + i), i));
    }
    _mm_sfence();
  }
  for (; i + kLanes <= size; i += kLanes) store<Out>(out + i, lanes(load<In>(in + i), i));
  if (i < size) map_part(in + i, out + i, size - i, i, lanes);
}

// The same with a vector of random words beside each vector of input, where the rule asks for it.
template <RoundingRule rule, class Out, class Lanes>
void map_rounding(const float* in, Out* out, size_t size, const RandomPlan& plan, bool streaming,
                  Lanes lanes) {
  if constexpr (rule == RoundingRule::stochastic) {
    uint32_t random[kBlock];
    for (size_t begin = 0; begin < size; begin += kBlock) {
      size_t count = size - begin < kBlock ? size - begin : kBlock;
      fill_random(random, count, plan.first_index + begin, {plan.key_low, plan.key_high},
                  plan.step_low | uint64_t{plan.step_high} << 32);
      map_vectors(in + begin, out + begin, count, false,
                  [&](Floats x, size_t i) { return lanes(x, load(random + i)); });
    }
  } else {
    map_vectors(in, out, size, streaming, [&](Floats x, size_t) { return lanes(x, Words{}); });
  }
}

#ifdef __F16C__
using Halves = Vector<uint16_t>;

Floats decode_halves(Halves codes, const CastPlan& plan) {
#ifdef __AVX512F__
  auto values = reinterpret_cast<Floats>(_mm512_cvtph_ps(reinterpret_cast<__m256i>(codes)));
#else
  auto values = reinterpret_cast<Floats>(_mm256_cvtph_ps(reinterpret_cast<__m128i>(codes)));
#endif
  return values * plan.inverse_scale;
}

// To nearest, for a plan that saturates or overflows to infinity.
Halves encode_halves(Floats values, const CastPlan& plan) {
  Floats x = values * plan.scale;
  x = x > plan.half_bound ? Floats{} + plan.half_bound : x;
  x = x < -plan.half_bound ? Floats{} - plan.half_bound : x;
  x = x != x ? as_floats((as_words(x) & kSign) | kNan) : x;  // without payload
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
#ifdef __AVX512F__
  return reinterpret_cast<Halves>(_mm512_cvtps_ph(reinterpret_cast<__m512>(x), kNearest));
#else
  return reinterpret_cast<Halves>(_mm256_cvtps_ph(reinterpret_cast<__m256>(x), kNearest));
#endif
}

// Whether the machine's own conversion was used.
bool encode_by_hardware(const float* values, uint16_t* codes, size_t size, RoundingRule rule,
                        const CastPlan& plan) {
  if (!plan.half_bound || rule != RoundingRule::nearest_even) return false;
  map_vectors(values, codes, size, plan.streaming,
              [&](Floats x, size_t) { return encode_halves(x, plan); });
  return true;
}

bool decode_by_hardware(const uint16_t* codes, float* values, size_t size, const CastPlan& plan) {
  if (!plan.is_half) return false;
  map_vectors(codes, values, size, plan.streaming,
              [&](Halves code, size_t) { return decode_halves(code, plan); });
  return true;
}
#endif

// Calls body with the rule, and whether the format is an integer, as compile-time constants.
template <class Body>
void with_constants(RoundingRule rule, const CastPlan& plan, Body body) {
  auto with_rule = [&]<bool integer> {
    switch (rule) {
      case RoundingRule::nearest_even:
        return body.template operator()<RoundingRule::nearest_even, integer>();
      case RoundingRule::stochastic:
        return body.template operator()<RoundingRule::stochastic, integer>();
      case RoundingRule::toward_zero:
        return body.template operator()<RoundingRule::toward_zero, integer>();
    }
  };
  plan.is_integer ? with_rule.template operator()<true>() : with_rule.template operator()<false>();
}

// The entry points are flattened, and keep their own copy of the plan that no output can alias, so
// that every constant stays in a register.
template <class Code>
[[gnu::flatten]] void encode(const float* values, Code* codes, size_t size, RoundingRule any_rule,
                             const CastPlan& shared_plan, const RandomPlan& random_plan) {
  const CastPlan plan = shared_plan;
#ifdef __F16C__
  if constexpr (sizeof(Code) == 2) {
    if (encode_by_hardware(values, codes, size, any_rule, plan)) return;
  }
#endif
  with_constants(any_rule, plan, [&]<RoundingRule rule, bool integer> {
    map_rounding<rule>(values, codes, size, random_plan, plan.streaming,
                       [&](Floats x, Words random) {
                         return to_codes<Code>(encode_lanes<rule, integer>(x, plan, random));
                       });
  });
}

[[gnu::flatten]] void quantize(const float* values, float* quantized, size_t size,
                               RoundingRule any_rule, const CastPlan& shared_plan,
                               const RandomPlan& random_plan) {
  const CastPlan plan = shared_plan;
  with_constants(any_rule, plan, [&]<RoundingRule rule, bool integer> {
    map_rounding<rule>(
        values, quantized, size, random_plan, plan.streaming,
        [&](Floats x, Words random) { return quantize_lanes<rule, integer>(x, plan, random); });
  });
}

template <class Code>
[[gnu::flatten]] void decode(const Code* codes, float* values, size_t size,
                             const CastPlan& shared_plan) {
  const CastPlan plan = shared_plan;
#ifdef __F16C__
  if constexpr (sizeof(Code) == 2) {
    if (decode_by_hardware(codes, values, size, plan)) return;
  }
#endif
  auto decode_all = [&]<bool integer> {
    map_vectors(codes, values, size, plan.streaming, [&](Vector<Code> code, size_t) {
      return decode_lanes<integer>(to_words<Code>(code), plan);
    });
  };
  plan.is_integer ? decode_all.template operator()<true>()
                  : decode_all.template operator()<false>();
}

}  // namespace

const ConvertKernels SIGMA1_KERNELS{encode<uint8_t>, encode<uint16_t>, decode<uint8_t>,
                                    decode<uint16_t>, quantize};

}  // namespace sigma1::detail
