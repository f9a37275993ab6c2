#include "tools/sigma1/stop_signal.h"

#include <csignal>

namespace sigma1 {
namespace {

volatile std::sig_atomic_t seen = 0;

// SIGUSR1 because mpirun hands that one on, and kills nobody a second later.
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1};

void note(int number) {
  seen = 1;
  std::signal(number, SIG_DFL);
}

}  // namespace

StopSignal::StopSignal() {
  seen = 0;
  struct sigaction action {};
  action.sa_handler = note;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  for (int number : kSignals) sigaction(number, &action, nullptr);
}

StopSignal::~StopSignal() {
  for (int number : kSignals) std::signal(number, SIG_DFL);
}

bool StopSignal::arrived() const { return seen != 0; }

}  // namespace sigma1
