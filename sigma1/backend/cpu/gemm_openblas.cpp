// Products by OpenBLAS, for machines without oneDNN.
#include <cblas.h>

#include "sigma1/backend/cpu/gemm_library.h"
#include "sigma1/base/error.h"
#include "sigma1/base/text.h"

namespace sigma1::cpu::library {
namespace {

// gemm.cpp cuts the work; threads inside the threads would fight for the cores.
void stay_on_one_thread() {
  static const bool done = (openblas_set_num_threads(1), true);
  static_cast<void>(done);
}

}  // namespace

void multiply(const Gemm& p, const float* a, const float* b, float* c) {
  stay_on_one_thread();
  auto size = [](int64_t n) { return static_cast<blasint>(n); };
  cblas_sgemm(CblasRowMajor, p.transpose_a ? CblasTrans : CblasNoTrans,
              p.transpose_b ? CblasTrans : CblasNoTrans, size(p.m), size(p.n), size(p.k), p.alpha,
              a, size(p.lda), b, size(p.ldb), p.beta, c, size(p.ldc));
}

bool knows_bf16() { return false; }

void multiply_by_library(const Gemm&, const uint16_t*, const uint16_t*, float*) {
  throw Bug("OpenBLAS: asked for bfloat16");
}

std::string name() {
  std::vector<std::string> words = split(openblas_get_config(), ' ');
  return words[0] + " " + words.at(1);
}

}  // namespace sigma1::cpu::library
