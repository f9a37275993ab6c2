// Products by 16 rows in shared memory against plain sums: which number of a factor, and of the
// result, is which.
#include "sigma1/backend/cuda/wgmma_sixteen.cuh"

#include <gtest/gtest.h>

#include <vector>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/tma.cuh"

namespace sigma1::cuda {
namespace {

constexpr int kSide = 64, kFew = 16, kRowBytes = 2 * kSide;

// a[64, 64], b[16, 64] lie in shared memory as panels; results[64, 16] are those of a·bᵀ, or of
// aᵀ·bᵀ.
template <class Element, bool kTransposed>
__global__ void multiply(const Element* a, const Element* b, float* results) {
  std::byte* room = shared_memory();
  auto place = [](int row, int x) { return row * kRowBytes + (x / 8 ^ row % 8) * 16 + x % 8 * 2; };
  auto thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kSide * kSide; i += 128) {
    *reinterpret_cast<Element*>(room + place(i / kSide, i % kSide)) = a[i];
  }
  for (int i = thread; i < kFew * kSide; i += 128) {
    *reinterpret_cast<Element*>(room + kSide * kRowBytes + place(i / kSide, i % kSide)) = b[i];
  }
  show_to_tensor_cores();
  __syncthreads();
  Panels left(shared_address(room)), right(shared_address(room) + kSide * kRowBytes);
  float sums[2][4] = {};
  begin_products();
#pragma unroll
  for (int x = 0; x < kSide; x += 16) {
    start_product_by_16<Element, kTransposed>(sums, left.at(x * (kTransposed ? kRowBytes : 2)),
                                              right.at(2 * x));
  }
  commit_products();
  wait_products<0>(sums);
  int lane = thread % 32, warp = thread / 32;
  for (int n = 0; n < 8; ++n) {
    int row = warp * 16 + lane / 4 + n % 4 / 2 * 8, column = n / 4 * 8 + lane % 4 * 2 + n % 2;
    results[row * kFew + column] = sums[n / 4][n % 4];
  }
}

// Small whole numbers, whose products are exact.
template <class Element, bool kTransposed>
void expect_products() {
  auto number = [](int i, int by) { return static_cast<float>(i * by % 31 - 15); };
  std::vector<Element> a(kSide * kSide), b(kFew * kSide);
  for (int i = 0; i < kSide * kSide; ++i) a[static_cast<size_t>(i)] = number(i, 17);
  for (int i = 0; i < kFew * kSide; ++i) b[static_cast<size_t>(i)] = number(i, 23);
  std::vector<float> got(kSide * kFew);
  Element *at_a = nullptr, *at_b = nullptr;
  float* at_results = nullptr;
  ASSERT_EQ(cudaMalloc(&at_a, a.size() * sizeof(Element)), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&at_b, b.size() * sizeof(Element)), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&at_results, got.size() * sizeof(float)), cudaSuccess);
  cudaMemcpy(at_a, a.data(), a.size() * sizeof(Element), cudaMemcpyHostToDevice);
  cudaMemcpy(at_b, b.data(), b.size() * sizeof(Element), cudaMemcpyHostToDevice);
  multiply<Element, kTransposed><<<1, 128, (kSide + kFew) * kRowBytes>>>(at_a, at_b, at_results);
  EXPECT_STREQ(cudaGetErrorString(cudaDeviceSynchronize()), "no error");
  cudaMemcpy(got.data(), at_results, got.size() * sizeof(float), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < kSide * kFew; ++i) {
    int row = i / kFew, column = i % kFew;
    float want = 0;
    for (int k = 0; k < kSide; ++k) {
      want += number(kTransposed ? k * kSide + row : row * kSide + k, 17) *
              number(column * kSide + k, 23);
    }
    if (got[static_cast<size_t>(i)] == want) continue;
    if (++wrong <= 4) {
      ADD_FAILURE() << "(" << row << ", " << column << "): " << got[static_cast<size_t>(i)]
                    << " instead of " << want;
    }
  }
  EXPECT_EQ(wrong, 0);
  cudaFree(at_a);
  cudaFree(at_b);
  cudaFree(at_results);
}

class CudaWgmmaSixteen : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(CudaWgmmaSixteen, MultipliesRowsByRows) {
  expect_products<__half, false>();
  expect_products<__nv_bfloat16, false>();
}
TEST_F(CudaWgmmaSixteen, MultipliesColumnsByRows) {
  expect_products<__half, true>();
  expect_products<__nv_bfloat16, true>();
}

}  // namespace
}  // namespace sigma1::cuda
