#include "sigma1/base/signals.h"

#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>

#include "sigma1/base/parallel.h"

namespace sigma1 {
namespace {

volatile uintptr_t handler_at = 0;

void note_place(int) { handler_at = reinterpret_cast<uintptr_t>(__builtin_frame_address(0)); }

TEST(Signals, AreTakenOnAStackOfTheirOwn) {
  SignalStack stack;
  struct sigaction action {
  }, before{};
  action.sa_handler = note_place;
  action.sa_flags = SA_ONSTACK;
  ASSERT_EQ(sigaction(SIGUSR2, &action, &before), 0);
  raise(SIGUSR2);
  sigaction(SIGUSR2, &before, nullptr);
  EXPECT_TRUE(stack.holds(reinterpret_cast<const void*>(handler_at)));
  int here = 0;
  EXPECT_FALSE(stack.holds(&here));
}

TEST(Signals, DoNotReachThreadsThatMultiply) {
  int threads = thread_count();
  set_thread_count(4);
  std::thread::id caller = std::this_thread::get_id();
  std::atomic<int> others = 0, reached = 0;
  // Until a worker has taken a piece: they join when they wake up.
  for (int i = 0; i < 1000 && others == 0; ++i) {
    parallel_for(64, 1, [&](size_t, size_t) {
      if (std::this_thread::get_id() == caller) return std::this_thread::yield();
      sigset_t blocked;
      pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
      ++others;
      if (sigismember(&blocked, SIGINT) == 0 || sigismember(&blocked, SIGSEGV) == 1) ++reached;
    });
  }
  set_thread_count(threads);
  EXPECT_GT(others, 0);
  EXPECT_EQ(reached, 0);
}

}  // namespace
}  // namespace sigma1
