// Products of four warps at once against plain sums: which number of a factor in shared memory is
// which, for each form that wgmma.cuh has.
#include "sigma1/backend/cuda/wgmma.cuh"

#include <gtest/gtest.h>

#include <vector>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/tma.cuh"

namespace sigma1::cuda {
namespace {

constexpr int kSide = 64, kRowBytes = 2 * kSide;
enum class Form { registers, registers_transposed, shared, shared_transposed };

// a and b lie in shared memory as panels; results are those of a·bᵀ, of a·b where b is transposed,
// or of aᵀ·b where both are.
template <class Element, Form form>
__global__ void multiply(const Element* a, const Element* b, float* results) {
  std::byte* room = shared_memory();
  auto place = [](int row, int x) { return row * kRowBytes + (x / 8 ^ row % 8) * 16 + x % 8 * 2; };
  for (int i = static_cast<int>(threadIdx.x); i < kSide * kSide; i += 128) {
    int at = place(i / kSide, i % kSide);
    *reinterpret_cast<Element*>(room + at) = a[i];
    *reinterpret_cast<Element*>(room + kSide * kRowBytes + at) = b[i];
  }
  show_to_tensor_cores();
  __syncthreads();
  uint32_t left = shared_address(room), right = left + kSide * kRowBytes;
  int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  uint32_t of_warp[kSide / 16][4];
  for (int x = 0; x < kSide; x += 16) {
    int row = warp * 16 + lane % 16;
    load_matrix_x4(of_warp[x / 16], left + place(row, x + lane / 16 * 8));
  }
  float sums[kSide / 8][4];
  begin_products();
#pragma unroll
  for (int x = 0; x < kSide; x += 16) {
    if constexpr (form == Form::shared) {
      start_product<Element>(sums, panel_of(left + 2 * x), panel_of(right + 2 * x), x > 0);
    } else if constexpr (form == Form::shared_transposed) {
      start_product<Element, true>(sums, panel_of(left + x * kRowBytes),
                                   panel_of(right + x * kRowBytes), x > 0);
    } else if constexpr (form == Form::registers) {
      start_product<Element, false>(sums, of_warp[x / 16], panel_of(right + 2 * x), x > 0);
    } else {
      start_product<Element, true>(sums, of_warp[x / 16], panel_of(right + x * kRowBytes), x > 0);
    }
  }
  commit_products();
  wait_products<0>(sums);
  for (int n = 0; n < kSide / 2; ++n) {
    int row = warp * 16 + lane / 4 + n % 4 / 2 * 8, column = n / 4 * 8 + lane % 4 * 2 + n % 2;
    results[row * kSide + column] = sums[n / 4][n % 4];
  }
}

// Small whole numbers, whose products are exact.
template <class Element, Form form>
void expect_products() {
  constexpr int kCount = kSide * kSide;
  std::vector<Element> a(kCount), b(kCount);
  auto number = [](int i, int by) { return static_cast<float>(i * by % 31 - 15); };
  for (int i = 0; i < kCount; ++i) {
    a[static_cast<size_t>(i)] = number(i, 17);
    b[static_cast<size_t>(i)] = number(i, 23);
  }
  Element *at_a = nullptr, *at_b = nullptr;
  float* at_results = nullptr;
  ASSERT_EQ(cudaMalloc(&at_a, kCount * sizeof(Element)), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&at_b, kCount * sizeof(Element)), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&at_results, kCount * sizeof(float)), cudaSuccess);
  cudaMemcpy(at_a, a.data(), kCount * sizeof(Element), cudaMemcpyHostToDevice);
  cudaMemcpy(at_b, b.data(), kCount * sizeof(Element), cudaMemcpyHostToDevice);
  multiply<Element, form><<<1, 128, 2 * kSide * kRowBytes>>>(at_a, at_b, at_results);
  EXPECT_STREQ(cudaGetErrorString(cudaDeviceSynchronize()), "no error");
  std::vector<float> got(kCount);
  cudaMemcpy(got.data(), at_results, kCount * sizeof(float), cudaMemcpyDeviceToHost);
  int wrong = 0;
  for (int i = 0; i < kCount; ++i) {
    int row = i / kSide, column = i % kSide;
    float want = 0;
    for (int k = 0; k < kSide; ++k) {
      bool a_across = form == Form::shared_transposed;
      bool b_across = a_across || form == Form::registers_transposed;
      want += number(a_across ? k * kSide + row : row * kSide + k, 17) *
              number(b_across ? k * kSide + column : column * kSide + k, 23);
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

class CudaWgmma : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(CudaWgmma, MultipliesRowsByRows) {
  expect_products<__half, Form::registers>();
  expect_products<__nv_bfloat16, Form::registers>();
}
TEST_F(CudaWgmma, MultipliesRowsInSharedMemory) {
  expect_products<__half, Form::shared>();
  expect_products<__nv_bfloat16, Form::shared>();
}
TEST_F(CudaWgmma, MultipliesColumnsInSharedMemory) {
  expect_products<__half, Form::shared_transposed>();
  expect_products<__nv_bfloat16, Form::shared_transposed>();
}
TEST_F(CudaWgmma, MultipliesRowsByColumns) {
  expect_products<__half, Form::registers_transposed>();
  expect_products<__nv_bfloat16, Form::registers_transposed>();
}

}  // namespace
}  // namespace sigma1::cuda
