// Products by oneDNN.
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "sigma1/backend/cpu/gemm_library.h"
#include "sigma1/base/error.h"

// Like dnnl_sgemm. The library exports it but names it in no header, so that one may come without
// it: then it is null. Its matmul, which headers have, would allocate memory in every step.
extern "C" [[gnu::weak]] dnnl_status_t dnnl_gemm_bf16bf16f32(char transpose_a, char transpose_b,
                                                             dnnl_dim_t m, dnnl_dim_t n,
                                                             dnnl_dim_t k, float alpha,
                                                             const uint16_t* a, dnnl_dim_t lda,
                                                             const uint16_t* b, dnnl_dim_t ldb,
                                                             float beta, float* c, dnnl_dim_t ldc);

namespace sigma1::cpu::library {
namespace {

// oneDNN asks OpenMP how many threads to use; gemm.cpp has cut the work already.
class OneThread {
 public:
  OneThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int before_;
};

template <class Multiply, class T>
void multiply_by(Multiply multiply, const Gemm& p, const T* a, const T* b, float* c) {
  OneThread one_thread;
  dnnl_status_t status = multiply(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n,
                                  p.k, p.alpha, a, p.lda, b, p.ldb, p.beta, c, p.ldc);
  if (status != dnnl_success) throw Bug("oneDNN: gemm gave status {}", static_cast<int>(status));
}

}  // namespace

void multiply(const Gemm& p, const float* a, const float* b, float* c) {
  multiply_by(dnnl_sgemm, p, a, b, c);
}

bool knows_bf16() { return dnnl_gemm_bf16bf16f32 != nullptr; }

void multiply_by_library(const Gemm& p, const uint16_t* a, const uint16_t* b, float* c) {
  multiply_by(dnnl_gemm_bf16bf16f32, p, a, b, c);
}

std::string name() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace sigma1::cpu::library
