// Products by oneDNN.
#include <omp.h>
#include <oneapi/dnnl/dnnl.h>

#include "sigma1/backend/cpu/gemm_library.h"
#include "sigma1/base/error.h"

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

}  // namespace

void multiply(const Gemm& p, const float* a, const float* b, float* c) {
  OneThread one_thread;
  dnnl_status_t status = dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n,
                                    p.k, p.alpha, a, p.lda, b, p.ldb, p.beta, c, p.ldc);
  if (status != dnnl_success) throw Bug("oneDNN: sgemm gave status {}", static_cast<int>(status));
}

std::string name() {
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}", version->major, version->minor, version->patch);
}

}  // namespace sigma1::cpu::library
