#include "sigma1/backend/cpu/gemm.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "sigma1/backend/cpu/gemm_library.h"
#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"

namespace sigma1::cpu {
namespace {

// Products are cut here and not by the library, whose own threads would spin beside ours. Rows
// first, because narrow columns are slower; below these sizes a piece no longer fills the library's
// blocks.
constexpr int64_t kMinRows = 64, kMinColumns = 192;
// Below this a piece takes less time than handing it over.
constexpr int64_t kMinWork = int64_t{1} << 19, kMinBf16Work = int64_t{1} << 22;

int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Grid {
  int64_t rows = 1, columns = 1;  // pieces
};

Grid cut(const Gemm& p, int64_t min_work) {
  if (in_parallel()) return {};
  int64_t pieces = std::min<int64_t>(thread_count(), p.m * p.n * p.k / min_work);
  if (pieces <= 1) return {};
  int64_t rows = std::min(pieces, divide_up(p.m, kMinRows));
  return {rows, std::min(divide_up(pieces, rows), divide_up(p.n, kMinColumns))};
}

// Piece i of `pieces` of [0, size), its ends where blocks of 32 end.
struct Range {
  Range(int64_t size, int64_t pieces, int64_t i) {
    int64_t each = divide_up(divide_up(size, pieces), 32) * 32;
    begin = std::min(size, i * each);
    count = std::min(size - begin, each);
  }
  int64_t begin, count;
};

template <class T>
void multiply_piece(const Gemm& whole, Grid grid, int64_t i, const T* a, const T* b, float* c) {
  Range rows(whole.m, grid.rows, i / grid.columns);
  Range columns(whole.n, grid.columns, i % grid.columns);
  if (rows.count == 0 || columns.count == 0) return;
  Gemm piece = whole;
  piece.m = rows.count;
  piece.n = columns.count;
  library::multiply(piece, a + rows.begin * (whole.transpose_a ? 1 : whole.lda),
                    b + columns.begin * (whole.transpose_b ? whole.ldb : 1),
                    c + rows.begin * whole.ldc + columns.begin);
}

// Nothing is summed: C = beta·C, where a beta of 0 takes no notice of what C held.
void multiply_empty(const Gemm& p, float* c) {
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      float& at = c[i * p.ldc + j];
      at = p.beta == 0 ? 0 : p.beta * at;
    }
  }
}

template <class T>
void multiply(const Gemm& product, const T* a, const T* b, float* c) {
  if (product.m == 0 || product.n == 0) return;
  if (product.k == 0) return multiply_empty(product, c);
  Grid grid = cut(product, sizeof(T) == sizeof(float) ? kMinWork : kMinBf16Work);
  auto pieces = static_cast<size_t>(grid.rows * grid.columns);
  if (pieces == 1) return library::multiply(product, a, b, c);
  parallel_for(pieces, 1, [&](size_t i, size_t) {
    multiply_piece(product, grid, static_cast<int64_t>(i), a, b, c);
  });
}

std::atomic<bool> logging{false};
std::mutex log_mutex;
std::vector<GemmCall> logged;

void log_call(const Gemm& product, bool bf16) {
  if (!logging.load(std::memory_order_relaxed)) return;
  std::lock_guard lock(log_mutex);
  bool on_one_thread = in_parallel();
  for (GemmCall& call : logged) {
    if (call.product == product && call.bf16 == bf16 && call.on_one_thread == on_one_thread) {
      ++call.count;
      return;
    }
  }
  logged.push_back({product, bf16, on_one_thread, 1});
}

}  // namespace

Gemm Gemm::packed(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b,
                  float alpha) {
  return {m, n, k, transpose_a, transpose_b, transpose_a ? m : k, transpose_b ? k : n, n, alpha, 0};
}

void gemm(const Gemm& product, const float* a, const float* b, float* c) {
  log_call(product, false);
  multiply(product, a, b, c);
}

bool has_bf16_gemm() { return library::has_bf16(); }

void gemm(const Gemm& product, const uint16_t* a, const uint16_t* b, float* c) {
  if (!has_bf16_gemm()) throw Bug("gemm: this processor does not multiply bfloat16");
  log_call(product, true);
  multiply(product, a, b, c);
}

std::string gemm_library() { return library::name(); }

GemmLog::GemmLog() {
  std::lock_guard lock(log_mutex);
  if (logging) throw Bug("GemmLog: another one lives");
  logged.clear();
  logging = true;
}

GemmLog::~GemmLog() { logging = false; }

std::vector<GemmCall> GemmLog::calls() const {
  std::lock_guard lock(log_mutex);
  return logged;
}

}  // namespace sigma1::cpu
