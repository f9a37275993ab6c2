#include "tools/sigma1/stop_signal.h"

#include <atomic>
#include <cerrno>
#include <csignal>

namespace sigma1 {
namespace {

// A sweep's threads ask too.
std::atomic<bool> seen = false;
static_assert(std::atomic<bool>::is_always_lock_free);

// SIGUSR1 because mpirun hands that one on, and kills nobody a second later.
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};

void note(int number) {
  const int of_others = errno;
  seen = true;
  std::signal(number, SIG_DFL);
  errno = of_others;
}

}  // namespace

StopSignal::StopSignal() {
  seen = false;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  for (int number : kSignals) sigaction(number, &action, nullptr);
}

StopSignal::~StopSignal() {
  for (int number : kSignals) std::signal(number, SIG_DFL);
}

bool StopSignal::arrived() const { return seen; }

}  // namespace sigma1
