#include "sigma1/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "sigma1/base/error.h"
#include "sigma1/base/signals.h"

namespace sigma1 {
namespace {

std::atomic<int> requested_threads{0};
thread_local bool inside = false;

// How often a waiting thread looks before it sleeps: about the time between two kernels. Threads
// that only spun would cost the work of whoever shares the machine, theirs included.
constexpr int kLooks = 2000;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

template <class Ready>
bool look(Ready ready) {
  for (int i = 0; i < kLooks; ++i) {
    if (ready()) return true;
    pause();
  }
  return false;
}

// The workers of one calling thread, so that several runs side by side each have theirs. A caller
// never waits for one that has not joined yet: on a busy machine it does the work itself.
class Pool {
 public:
  static Pool& of_this_thread() {
    thread_local Pool pool;
    return pool;
  }

  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  ~Pool() {
    stopping_ = true;
    announce();
  }

  // Runs work() here and on up to `workers` workers.
  void run(int workers, FunctionView<> work) {
    while (static_cast<int>(workers_.size()) < workers) {
      workers_.emplace_back([this] { serve(); });
    }
    work_ = &work;
    places_ = workers;
    state_.store(kOpen, std::memory_order_release);
    announce();
    work();
    state_.fetch_and(~kOpen, std::memory_order_acq_rel);
    auto finished = [&] { return state_.load(std::memory_order_acquire) == 0; };
    while (!look(finished)) {
      uint32_t now = state_.load(std::memory_order_acquire);
      if (now != 0) state_.wait(now);
    }
  }

 private:
  static constexpr uint32_t kOpen = 1u << 31;  // the rest of state_ counts the workers inside

  void announce() {
    announced_.fetch_add(1, std::memory_order_release);
    announced_.notify_all();
  }

  bool enter() {
    uint32_t state = state_.load(std::memory_order_acquire);
    while ((state & kOpen) != 0 && static_cast<int>(state & ~kOpen) < places_) {
      if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) return true;
    }
    return false;
  }

  void serve() {
    leave_signals_to_others();
    inside = true;
    uint32_t seen = 0;
    while (!stopping_) {
      auto called = [&] { return announced_.load(std::memory_order_acquire) != seen; };
      if (!look(called)) announced_.wait(seen);
      seen = announced_.load(std::memory_order_acquire);
      if (stopping_ || !enter()) continue;
      (*work_)();
      if (state_.fetch_sub(1, std::memory_order_acq_rel) == 1) state_.notify_all();
    }
  }

  const FunctionView<>* work_ = nullptr;
  std::atomic<int> places_{0};
  std::atomic<uint32_t> state_{0}, announced_{0};
  std::atomic<bool> stopping_{false};
  std::vector<std::jthread> workers_;  // last, because they use all of the above to their end
};

// What the calling thread does between its entry and its leave counts as parallel.
class Inside {
 public:
  Inside() { inside = true; }
  ~Inside() { inside = false; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

}  // namespace

int thread_count() {
  static const int processors = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  int requested = requested_threads.load();
  return requested > 0 ? requested : processors;
}

void set_thread_count(int count) {
  if (count < 0) throw Error("number of threads: expected 0 (all) or more, got {}", count);
  requested_threads = count;
}

bool in_parallel() { return inside; }

void parallel_for(size_t size, size_t grain, FunctionView<size_t, size_t> body) {
  if (grain == 0) throw Bug("parallel_for: grain must be positive");
  size_t pieces = (size + grain - 1) / grain;
  auto run_piece = [&](size_t piece) { body(piece * grain, std::min(size, (piece + 1) * grain)); };
  auto threads = static_cast<int>(std::min<size_t>(pieces, static_cast<size_t>(thread_count())));
  std::atomic<size_t> next{0};
  std::exception_ptr failure;
  std::mutex failure_mutex;
  auto work = [&] {
    try {
      for (size_t piece; (piece = next.fetch_add(1)) < pieces;) run_piece(piece);
    } catch (...) {
      std::lock_guard lock(failure_mutex);
      if (!failure) failure = std::current_exception();
      next = pieces;
    }
  };
  if (threads > 1 && !inside) {
    Inside mark;
    Pool::of_this_thread().run(threads - 1, work);
  } else {
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace sigma1
