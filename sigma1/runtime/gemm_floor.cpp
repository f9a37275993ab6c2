#include "sigma1/runtime/gemm_floor.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "sigma1/backend/cpu/gemm.h"
#include "sigma1/base/parallel.h"

namespace sigma1 {
namespace {

using cpu::GemmCall;

// Room for the operands of any of the products, one set for each thread that multiplies alone.
struct Operands {
  std::vector<float> a, b, c;

  explicit Operands(const GemmCall& call)
      : a(static_cast<size_t>(call.product.m * call.product.k), 0.5f),
        b(static_cast<size_t>(call.product.k * call.product.n), 0.5f),
        c(static_cast<size_t>(call.product.m * call.product.n)) {}

  void multiply(const GemmCall& call) {
    const cpu::Gemm& p = call.product;
    cpu::Gemm packed = cpu::Gemm::packed(p.m, p.n, p.k, p.transpose_a, p.transpose_b, p.alpha);
    if (call.bf16) {
      cpu::gemm(packed, reinterpret_cast<const uint16_t*>(a.data()),
                reinterpret_cast<const uint16_t*>(b.data()), c.data());
    } else {
      cpu::gemm(packed, a.data(), b.data(), c.data());
    }
  }
};

void repeat(const GemmCall& call, std::vector<Operands>& operands) {
  if (!call.on_one_thread) {
    for (int64_t i = 0; i < call.count; ++i) operands.front().multiply(call);
    return;
  }
  size_t threads = operands.size(), count = static_cast<size_t>(call.count);
  parallel_for(threads, 1, [&](size_t thread, size_t) {
    for (size_t i = thread; i < count; i += threads) operands[thread].multiply(call);
  });
}

double best_seconds(const GemmCall& call, int repeats) {
  using Clock = std::chrono::steady_clock;
  size_t sets = call.on_one_thread ? static_cast<size_t>(thread_count()) : 1;
  std::vector<Operands> operands(sets, Operands(call));
  operands.front().multiply(call);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < repeats; ++i) {
    Clock::time_point start = Clock::now();
    repeat(call, operands);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

}  // namespace

double gemm_floor(Program& program, int repeats) {
  std::vector<GemmCall> calls;
  {
    cpu::GemmLog log;
    program.run(0);
    calls = log.calls();
  }
  double seconds = 0;
  for (const GemmCall& call : calls) seconds += best_seconds(call, repeats);
  return seconds;
}

}  // namespace sigma1
