#include "sigma1/base/parallel.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

std::atomic<int> requested_threads{0};

// Runs work() on each of `threads` threads. OpenMP, because the GEMM libraries use it too and two
// pools would fight for the cores.
void run_team(int threads, const std::function<void()>& work) {
#ifdef __SANITIZE_THREAD__
  // The thread sanitizer cannot see libgomp's barriers and would report every hand-over as a race.
  std::vector<std::jthread> team;
  for (int i = 1; i < threads; ++i) team.emplace_back(work);
  work();
#else
#pragma omp parallel num_threads(threads)
  work();
#endif
}

}  // namespace

int thread_count() {
  int requested = requested_threads.load();
  return requested > 0 ? requested : omp_get_num_procs();
}

void set_thread_count(int count) {
  if (count < 0) throw Error("number of threads: expected 0 (all) or more, got {}", count);
  requested_threads = count;
}

void parallel_for(size_t size, size_t grain, const std::function<void(size_t, size_t)>& body) {
  if (grain == 0) throw Bug("parallel_for: grain must be positive");
  size_t pieces = (size + grain - 1) / grain;
  auto run_piece = [&](size_t piece) { body(piece * grain, std::min(size, (piece + 1) * grain)); };
  auto threads = static_cast<int>(std::min<size_t>(pieces, static_cast<size_t>(thread_count())));
  if (threads <= 1) {
    for (size_t piece = 0; piece < pieces; ++piece) run_piece(piece);
    return;
  }

  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  run_team(threads, [&] {
    try {
      for (size_t piece; (piece = next.fetch_add(1)) < pieces;) run_piece(piece);
    } catch (...) {
      std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
      next = pieces;
    }
  });
  if (failure) std::rethrow_exception(failure);
}

}  // namespace sigma1
