// Array conversions against quantize.h on every instruction set, against the CPU's own fp16, and,
// where its headers are found, against CUDA's host conversions.
#include "sigma1/numerics/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"

#if __has_include(<cuda_fp8.h>) && __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#define SIGMA1_HAS_CUDA_HEADERS 1
#endif

namespace sigma1 {
namespace {

FloatFormat named(std::string_view name) { return find_format(name).format; }

// Everything where rounding turns: for each finite value of the format the value, the midpoint to
// the next, and the floats on either side of both; then floats of every exponent, and the specials.
std::vector<float> telling_values(const FloatFormat& format) {
  std::vector<float> values{0.0f, -0.0f, INFINITY, -INFINITY, NAN, -NAN, 1e-45f, 3.4e38f};
  for (uint32_t code = 0; code < format.infinity_magnitude(); ++code) {
    auto here = static_cast<float>(decode(code, format));
    double next = code < format.max_magnitude()
                      ? decode(code + 1, format)
                      : 2 * decode(code, format) - decode(code - 1, format);
    auto middle = static_cast<float>((here + next) / 2);
    for (float x : {here, middle}) {
      for (float y : {x, std::nextafter(x, 0.0f), std::nextafter(x, INFINITY)}) {
        values.push_back(y);
        values.push_back(-y);
      }
    }
  }
  for (uint32_t bits = 0; bits < 0xFFFF0000; bits += 0x1F35D) {
    values.push_back(std::bit_cast<float>(bits));
  }
  return values;
}

bool same_bits(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) ||
         std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b);
}

std::vector<Cast> casts_to_test() {
  std::vector<Cast> casts;
  for (const char* name : {"bf16", "fp16", "fp8_e5m2", "fp8_e4m3", "fp8_e5m2fnuz", "fp8_e4m3fnuz",
                           "fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "int8", "e8m0", "e3m0", "e6m9"}) {
    FloatFormat format = named(name);
    for (Rounding rounding :
         {Rounding::nearest_even, Rounding::stochastic, Rounding::toward_zero}) {
      casts.push_back({format, rounding, Overflow::saturate});
    }
    if (format.has_infinity()) casts.push_back({format, {}, Overflow::infinity});
    if (format.has_nan()) casts.push_back({format, {}, Overflow::nan});
    casts.push_back({format, {}, Overflow::saturate, 0.7f});
  }
  return casts;
}

class EveryInstructionSet : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    before_ = instruction_set();
    if (!is_supported(GetParam())) GTEST_SKIP() << "this machine lacks the instruction set";
    force_instruction_set(GetParam());
  }
  void TearDown() override { force_instruction_set(before_); }

 private:
  InstructionSet before_;
};

template <class Code>
void expect_equals_scalar(const std::vector<float>& values, const Cast& cast) {
  RandomStream random(3, "convert");
  std::vector<Code> codes(values.size());
  encode(values, codes, cast, random);
  std::vector<float> quantized(values.size()), decoded(values.size());
  quantize(values, quantized, cast, random);
  decode(codes, decoded, cast);
  Cast unscaled = cast;
  unscaled.scale = 1;
  for (size_t i = 0; i < values.size(); ++i) {
    float scaled = values[i] * cast.scale;
    uint32_t code = encode(scaled, unscaled, random.bits(i));
    ASSERT_EQ(codes[i], code) << values[i] << " at " << i;
    float value = static_cast<float>(decode(code, cast.format)) * (1 / cast.scale);
    ASSERT_TRUE(same_bits(decoded[i], value)) << decoded[i] << " for code " << code;
    ASSERT_TRUE(same_bits(quantized[i], std::isnan(values[i]) ? NAN : value)) << values[i];
  }
}

TEST_P(EveryInstructionSet, EqualsTheScalarDefinition) {
  for (const Cast& cast : casts_to_test()) {
    std::vector<float> values = telling_values(cast.format);
    SCOPED_TRACE(testing::Message()
                 << "e" << cast.format.exponent_bits << "m" << cast.format.mantissa_bits
                 << " rounding " << static_cast<int>(cast.rounding));
    if (cast.format.bytes() == 1) {
      expect_equals_scalar<uint8_t>(values, cast);
    } else {
      expect_equals_scalar<uint16_t>(values, cast);
    }
    if (HasFatalFailure()) return;
  }
}

TEST_P(EveryInstructionSet, QuantizesToFormatsTooWideForCodes) {
  for (const char* name : {"tf32", "fp32", "e5m20", "e7m23"}) {
    FloatFormat format = named(name);
    std::vector<float> values = telling_values(named("fp16")), quantized(values.size());
    quantize(values, quantized, {format});
    for (size_t i = 0; i < values.size(); ++i) {
      auto expected = static_cast<float>(sigma1::quantize(values[i], {format}));
      ASSERT_TRUE(same_bits(quantized[i], expected)) << name << " " << values[i];
    }
  }
}

TEST_P(EveryInstructionSet, EveryLengthWritesItsElementsAndNoMore) {
  for (size_t size = 0; size < 70; ++size) {
    std::vector<float> values(size, 1.5f), decoded(size);
    std::vector<uint8_t> codes(size + 1, 0xAB);
    encode(values, std::span(codes).first(size), {named("fp8_e4m3")});
    EXPECT_EQ(codes[size], 0xAB);
    decode(std::span<const uint8_t>(codes).first(size), decoded, {named("fp8_e4m3")});
    EXPECT_EQ(decoded, values);
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, EveryInstructionSet,
                         testing::Values(InstructionSet::baseline, InstructionSet::avx2,
                                         InstructionSet::avx512));

TEST(Convert, StochasticBitsDoNotDependOnThreads) {
  std::vector<float> values(300'001);
  RandomStream normal(1, "x");
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(normal.normal(i));
  Cast cast{named("fp8_e4m3"), Rounding::stochastic};
  std::vector<uint8_t> one(values.size()), many(values.size());
  set_thread_count(1);
  encode(values, one, cast, RandomStream(9, "round"));
  set_thread_count(5);
  encode(values, many, cast, RandomStream(9, "round"));
  set_thread_count(0);
  EXPECT_EQ(one, many);
  encode(values, many, cast, RandomStream(10, "round"));
  EXPECT_NE(one, many);
}

TEST(Convert, InstructionSetsHaveNames) {
  EXPECT_EQ(to_string(InstructionSet::baseline), "baseline");
  EXPECT_EQ(to_string(InstructionSet::avx2), "AVX2");
  EXPECT_EQ(to_string(InstructionSet::avx512), "AVX-512");
}

TEST(Convert, SizesAndStorageMustFit) {
  std::vector<float> values(3);
  std::vector<uint8_t> bytes(3), too_few(2);
  EXPECT_THROW(encode(values, too_few, {named("fp8_e4m3")}), Bug);
  EXPECT_THROW(encode(values, bytes, {named("fp16")}), Bug);
}

// The CPU's own fp16: _Float16 compiles to its conversion instructions, or to the compiler's exact
// emulation of them.
TEST(Convert, Fp16DecodesAsTheCpu) {
  std::vector<uint16_t> codes(65536);
  std::vector<float> values(codes.size());
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<uint16_t>(i);
  decode(codes, values, {named("fp16")});
  for (size_t i = 0; i < codes.size(); ++i) {
    auto expected = static_cast<float>(std::bit_cast<_Float16>(codes[i]));
    ASSERT_TRUE(same_bits(values[i], expected)) << i;
  }
}

TEST(Convert, Fp16EncodesAsTheCpu) {
  std::vector<float> values = telling_values(named("fp16"));
  std::vector<uint16_t> codes(values.size());
  encode(values, codes, {named("fp16"), Rounding::nearest_even, Overflow::infinity});
  for (size_t i = 0; i < values.size(); ++i) {
    auto expected = std::bit_cast<uint16_t>(static_cast<_Float16>(values[i]));
    if (std::isnan(values[i])) {
      ASSERT_EQ(codes[i] & 0x7FFF, 0x7E00);
    } else {
      ASSERT_EQ(codes[i], expected) << values[i];
    }
  }
}

#ifdef SIGMA1_HAS_CUDA_HEADERS
void expect_cuda_fp8(const char* name, __nv_fp8_interpretation_t interpretation,
                     __nv_saturation_t saturation, Overflow overflow) {
  std::vector<float> values = telling_values(named(name));
  std::vector<uint8_t> codes(values.size());
  encode(values, codes, {named(name), Rounding::nearest_even, overflow});
  for (size_t i = 0; i < values.size(); ++i) {
    uint8_t expected = __nv_cvt_float_to_fp8(values[i], saturation, interpretation);
    if (std::isnan(values[i])) {
      // CUDA's NaN has a payload and no sign, ours a sign and no payload.
      ASSERT_TRUE(std::isnan(decode(codes[i], named(name))) &&
                  std::isnan(decode(expected, named(name))));
    } else {
      ASSERT_EQ(codes[i], expected) << values[i];
    }
  }
}

TEST(ConvertCudaHeaders, Fp8BothSaturations) {
  expect_cuda_fp8("fp8_e4m3", __NV_E4M3, __NV_SATFINITE, Overflow::saturate);
  expect_cuda_fp8("fp8_e4m3", __NV_E4M3, __NV_NOSAT, Overflow::nan);
  expect_cuda_fp8("fp8_e5m2", __NV_E5M2, __NV_SATFINITE, Overflow::saturate);
  expect_cuda_fp8("fp8_e5m2", __NV_E5M2, __NV_NOSAT, Overflow::infinity);
}

TEST(ConvertCudaHeaders, Fp8DecodesEveryCode) {
  std::pair<const char*, __nv_fp8_interpretation_t> formats[] = {{"fp8_e4m3", __NV_E4M3},
                                                                 {"fp8_e5m2", __NV_E5M2}};
  for (auto [name, interpretation] : formats) {
    for (unsigned code = 0; code < 256; ++code) {
      __half_raw half =
          __nv_cvt_fp8_to_halfraw(static_cast<__nv_fp8_storage_t>(code), interpretation);
      auto expected = static_cast<float>(std::bit_cast<_Float16>(half.x));
      ASSERT_TRUE(same_bits(static_cast<float>(decode(code, named(name))), expected)) << code;
    }
  }
}

TEST(ConvertCudaHeaders, Bf16) {
  std::vector<float> values = telling_values(named("bf16"));
  std::vector<uint16_t> codes(values.size());
  encode(values, codes, {named("bf16"), Rounding::nearest_even, Overflow::infinity});
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t expected = __nv_bfloat16_raw(__float2bfloat16_rn(values[i])).x;
    if (std::isnan(values[i])) {
      ASSERT_GT(codes[i] & 0x7FFF, 0x7F80);
    } else {
      ASSERT_EQ(codes[i], expected) << values[i];
    }
  }
}
#endif

}  // namespace
}  // namespace sigma1
