// Matrix products: of fp32 through oneDNN or OpenBLAS, of bfloat16 by AMX or
// oneDNN. The factor is an argument of the product, so a folded scale costs nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sigma1::cpu {

// C[m, n] = alpha · op(A)[m, k] · op(B)[k, n] + beta · C, all row-major.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false, transpose_b = false;
  int64_t lda = 0, ldb = 0, ldc = 0;  // elements from one stored row to the next
  float alpha = 1, beta = 0;

  bool operator==(const Gemm&) const = default;

  // Of matrices without gaps.
  static Gemm packed(int64_t m, int64_t n, int64_t k, bool transpose_a = false,
                     bool transpose_b = false, float alpha = 1);
};

// Inside a parallel_for on the calling thread alone, elsewhere on thread_count() threads. The
// same bits for the same numbers, shapes and threads.
void gemm(const Gemm& product, const float* a, const float* b, float* c);

// bfloat16 in, exact products, fp32 sums. The processor takes subnormal bfloat16 as zero and makes
// subnormal sums zero; the numbers of 8-bit formats are far from either. Only where
// has_bf16_gemm().
bool has_bf16_gemm();
void gemm(const Gemm& product, const uint16_t* a, const uint16_t* b, float* c);

std::string gemm_library();  // "oneDNN 2.6.3"

struct GemmCall {
  Gemm product;
  bool bf16 = false;
  bool on_one_thread = false;  // made inside a parallel_for
  int64_t count = 0;

  bool operator==(const GemmCall&) const = default;
};

// Lists the products made while it lives, by any thread, in the order of each one's first call. One
// at a time.
class GemmLog {
 public:
  GemmLog();
  ~GemmLog();
  GemmLog(const GemmLog&) = delete;
  GemmLog& operator=(const GemmLog&) = delete;

  std::vector<GemmCall> calls() const;
};

}  // namespace sigma1::cpu
