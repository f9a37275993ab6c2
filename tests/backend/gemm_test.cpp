#include "sigma1/backend/cpu/gemm.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <bit>
#include <cmath>
#include <thread>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/base/rng.h"
#include "sigma1/base/text.h"
#include "sigma1/numerics/convert.h"

namespace sigma1::cpu {
namespace {

std::vector<float> normal_floats(int64_t count, std::string_view name) {
  RandomStream stream(1, name);
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(stream.normal(i));
  return values;
}

std::vector<uint16_t> cut_to_bf16(const std::vector<float>& values) {
  std::vector<uint16_t> codes;
  for (float x : values) codes.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16));
  return codes;
}

double number(float x) { return x; }
double number(uint16_t code) { return std::bit_cast<float>(uint32_t{code} << 16); }

Gemm with_gaps(Gemm p) {
  p.lda += 3;
  p.ldb += 5;
  p.ldc += 7;
  return p;
}

int64_t size_a(const Gemm& p) { return (p.transpose_a ? p.k : p.m) * p.lda; }
int64_t size_b(const Gemm& p) { return (p.transpose_b ? p.n : p.k) * p.ldb; }

struct Sum {
  double value = 0, magnitude = 0;
};

template <class T>
Sum sum_of(const Gemm& p, const std::vector<T>& a, const std::vector<T>& b, int64_t i, int64_t j) {
  Sum sum;
  for (int64_t k = 0; k < p.k; ++k) {
    double x = number(a[static_cast<size_t>(p.transpose_a ? k * p.lda + i : i * p.lda + k)]);
    double y = number(b[static_cast<size_t>(p.transpose_b ? j * p.ldb + k : k * p.ldb + j)]);
    sum.value += x * y;
    sum.magnitude += std::fabs(x * y);
  }
  return sum;
}

// Every element against a sum in double, within what k roundings to fp32 can do; and nothing
// written between the rows. Cut for several numbers of threads.
template <class T>
void expect_product(const Gemm& p, const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<float> before = normal_floats(p.m * p.ldc, "c");
  std::vector<std::vector<float>> results;
  for (int threads : {1, 2, 5}) {
    set_thread_count(threads);
    gemm(p, a.data(), b.data(), results.emplace_back(before).data());
  }
  set_thread_count(0);
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.ldc; ++j) {
      auto at = static_cast<size_t>(i * p.ldc + j);
      double expected = before[at], bound = 0;
      if (j < p.n) {
        Sum sum = sum_of(p, a, b, i, j);
        double old = p.beta * expected;
        expected = p.alpha * sum.value + old;
        bound = std::ldexp(static_cast<double>(p.k + 3), -24) *
                (std::fabs(p.alpha) * sum.magnitude + std::fabs(old));
      }
      for (const std::vector<float>& c : results) {
        ASSERT_NEAR(c[at], expected, bound)
            << p.m << "x" << p.n << "x" << p.k << (p.transpose_a ? " Aᵀ" : "")
            << (p.transpose_b ? " Bᵀ" : "") << " alpha " << p.alpha << " beta " << p.beta << " at "
            << i << ", " << j;
      }
    }
  }
}

void check(const Gemm& p, bool bf16) {
  std::vector<float> a = normal_floats(size_a(p), "a"), b = normal_floats(size_b(p), "b");
  if (bf16) {
    expect_product(p, cut_to_bf16(a), cut_to_bf16(b));
  } else {
    expect_product(p, a, b);
  }
}

// Odd sizes, sizes of one, and sizes that are cut over threads by rows, by columns and by both.
const int64_t kSizes[][3] = {{1, 1, 1},       {3, 5, 7},      {1, 33, 17},
                             {19, 1, 65},     {8, 16, 32},    {131, 67, 129},
                             {257, 300, 130}, {5, 1000, 260}, {100, 700, 70}};

void check_everything(bool bf16) {
  for (auto [m, n, k] : kSizes) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      Gemm p = Gemm::packed(m, n, k, transposes & 1, transposes & 2);
      check(p, bf16);
      p.alpha = 0.375f;
      check(with_gaps(p), bf16);
      p.beta = 1;
      check(with_gaps(p), bf16);
      p.beta = -0.5f;
      check(p, bf16);
    }
  }
}

TEST(Gemm, EveryShapeAndTranspositionIsRight) { check_everything(false); }

TEST(Gemm, Bfloat16IsRightAndSumsInFp32) {
  if (!has_bf16_gemm()) GTEST_SKIP() << "no bfloat16 products here";
  check_everything(true);
  check(Gemm::packed(20, 24, 4099), true);
  check(Gemm::packed(40, 1033, 600), true);
}

// The smallest numbers of the 8-bit formats, and products near the ends of fp32's range.
TEST(Gemm, Bfloat16ProductsAreExact) {
  if (!has_bf16_gemm()) GTEST_SKIP() << "no bfloat16 products here";
  for (float x : {0x1p-16f, 0x1p-9f, 448.0f, 57344.0f, 0x1.fep60f, 0x1p-63f}) {
    std::vector<uint16_t> a = cut_to_bf16({x}), b = cut_to_bf16({-x});
    float c = 0;
    gemm(Gemm::packed(1, 1, 1), a.data(), b.data(), &c);
    EXPECT_EQ(c, -x * x);
  }
}

TEST(Gemm, OldContentsCountOnlyWithBeta) {
  for (bool bf16 : {false, true}) {
    if (bf16 && !has_bf16_gemm()) continue;
    std::vector<float> a{1, 2, 3, 4, 5, 6}, c{NAN, NAN, NAN, NAN};
    if (bf16) {
      gemm(Gemm::packed(2, 2, 3), cut_to_bf16(a).data(), cut_to_bf16(a).data(), c.data());
    } else {
      gemm(Gemm::packed(2, 2, 3), a.data(), a.data(), c.data());
    }
    EXPECT_EQ(c, (std::vector<float>{22, 28, 49, 64}));
  }
}

TEST(Gemm, NothingToSumIsZero) {
  std::vector<float> c{1, NAN, 3, 4};
  Gemm p = Gemm::packed(2, 2, 0);
  gemm(p, c.data(), c.data(), c.data());
  EXPECT_EQ(c, (std::vector<float>{0, 0, 0, 0}));
  c = {1, 2, 3, 4};
  p.beta = 2;
  gemm(p, c.data(), c.data(), c.data());
  EXPECT_EQ(c, (std::vector<float>{2, 4, 6, 8}));
  gemm(Gemm::packed(0, 2, 3), c.data(), c.data(), nullptr);
}

TEST(Gemm, SameBitsFromRunToRunAndInsideParallelRegions) {
  Gemm p = Gemm::packed(300, 400, 500);
  std::vector<float> a = normal_floats(size_a(p), "a"), b = normal_floats(size_b(p), "b");
  std::vector<float> first(static_cast<size_t>(p.m * p.n)), again = first, alone = first;
  set_thread_count(4);
  gemm(p, a.data(), b.data(), first.data());
  gemm(p, a.data(), b.data(), again.data());
  EXPECT_EQ(first, again);
  std::vector<float> inside[2] = {first, first};
  parallel_for(2, 1, [&](size_t i, size_t) {
    inside[i].assign(first.size(), 0);
    gemm(p, a.data(), b.data(), inside[i].data());
  });
  set_thread_count(1);
  gemm(p, a.data(), b.data(), alone.data());
  set_thread_count(0);
  EXPECT_EQ(inside[0], alone);
  EXPECT_EQ(inside[1], alone);
}

// oneDNN takes its number of threads from OpenMP's, which others use too.
TEST(Gemm, LeavesOpenMpAsItWas) {
  int before = omp_get_max_threads();
  check(Gemm::packed(8, 16, 32), false);
  EXPECT_EQ(omp_get_max_threads(), before);
}

TEST(Gemm, Bfloat16NeedsTheProcessor) {
  InstructionSet before = instruction_set();
  force_instruction_set(InstructionSet::baseline);
  EXPECT_FALSE(has_bf16_gemm());
  uint16_t x = 0;
  float c = 0;
  EXPECT_THROW(gemm(Gemm::packed(1, 1, 1), &x, &x, &c), Bug);
  force_instruction_set(before);
}

TEST(Gemm, LogCountsEqualProducts) {
  std::vector<float> a(64), c(64);
  Gemm small = Gemm::packed(2, 3, 4), other = Gemm::packed(2, 3, 4, true);
  gemm(small, a.data(), a.data(), c.data());
  {
    GemmLog log;
    EXPECT_THROW(GemmLog(), Bug);
    EXPECT_TRUE(log.calls().empty());
    gemm(small, a.data(), a.data(), c.data());
    gemm(other, a.data(), a.data(), c.data());
    std::thread([&] { gemm(small, a.data(), a.data(), c.data() + 32); }).join();
    std::vector<GemmCall> want{{small, false, false, 2}, {other, false, false, 1}};
    EXPECT_EQ(log.calls(), want);
    set_thread_count(2);
    parallel_for(2, 1, [&](size_t i, size_t) { gemm(other, a.data(), a.data(), &c[i * 32]); });
    set_thread_count(0);
    want.push_back({other, false, true, 2});
    EXPECT_EQ(log.calls(), want);
  }
  gemm(small, a.data(), a.data(), c.data());
  EXPECT_TRUE(GemmLog().calls().empty());
}

TEST(Gemm, LibraryHasNameAndVersion) {
  std::vector<std::string> words = split(gemm_library(), ' ');
  ASSERT_EQ(words.size(), 2u);
  EXPECT_TRUE(words[0] == "oneDNN" || words[0] == "OpenBLAS") << words[0];
  EXPECT_EQ(split(words[1], '.').size(), 3u) << words[1];
}

}  // namespace
}  // namespace sigma1::cpu
