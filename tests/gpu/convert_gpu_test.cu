// The GPU's own conversions against ours: what the hardware casts is what quantize.h defines.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "sigma1/numerics/convert.h"

namespace sigma1 {
namespace {

__global__ void cast_all(const float* values, uint16_t* fp16, uint16_t* bf16, uint8_t* e4m3,
                         uint8_t* e5m2, size_t size) {
  size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x;
  if (i >= size) return;
  fp16[i] = __half_as_ushort(__float2half_rn(values[i]));
  bf16[i] = __bfloat16_as_ushort(__float2bfloat16_rn(values[i]));
  e4m3[i] = __nv_cvt_float_to_fp8(values[i], __NV_SATFINITE, __NV_E4M3);
  e5m2[i] = __nv_cvt_float_to_fp8(values[i], __NV_SATFINITE, __NV_E5M2);
}

template <class Element>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) {
    EXPECT_EQ(cudaMalloc(&data_, size * sizeof(Element)), cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  Element* data() { return data_; }
  std::vector<Element> download() {
    std::vector<Element> host(size_);
    EXPECT_EQ(cudaMemcpy(host.data(), data_, size_ * sizeof(Element), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return host;
  }
  void upload(const std::vector<Element>& host) {
    EXPECT_EQ(cudaMemcpy(data_, host.data(), size_ * sizeof(Element), cudaMemcpyHostToDevice),
              cudaSuccess);
  }

 private:
  Element* data_ = nullptr;
  size_t size_;
};

template <class Code>
void expect_same(const std::vector<float>& values, const std::vector<Code>& hardware,
                 const char* format, Overflow overflow) {
  Cast cast{find_format(format).format, Rounding::nearest_even, overflow};
  std::vector<Code> ours(values.size());
  encode(values, ours, cast);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(values[i])) {
      ASSERT_TRUE(std::isnan(decode(hardware[i], cast.format)));
    } else {
      ASSERT_EQ(ours[i], hardware[i]) << format << " " << values[i];
    }
  }
}

// Every float whose low 8 bits are one of four: 2^26 values, all exponents, ties among them.
TEST(ConvertGpu, HardwareCastsAreOurs) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no GPU here";
  constexpr size_t kSize = size_t{1} << 26;
  std::vector<float> values(kSize);
  for (size_t i = 0; i < kSize; ++i) {
    constexpr uint32_t kLowBits[] = {0x00, 0x01, 0x80, 0xFF};
    uint32_t bits = static_cast<uint32_t>(i / 4) << 8 | kLowBits[i % 4];
    std::memcpy(&values[i], &bits, sizeof(bits));
  }
  DeviceArray<float> input(kSize);
  DeviceArray<uint16_t> fp16(kSize), bf16(kSize);
  DeviceArray<uint8_t> e4m3(kSize), e5m2(kSize);
  input.upload(values);
  cast_all<<<kSize / 256, 256>>>(input.data(), fp16.data(), bf16.data(), e4m3.data(), e5m2.data(),
                                 kSize);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  expect_same(values, fp16.download(), "fp16", Overflow::infinity);
  expect_same(values, bf16.download(), "bf16", Overflow::infinity);
  expect_same(values, e4m3.download(), "fp8_e4m3", Overflow::saturate);
  expect_same(values, e5m2.download(), "fp8_e5m2", Overflow::saturate);
}

}  // namespace
}  // namespace sigma1
