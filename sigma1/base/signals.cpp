#include "sigma1/base/signals.h"

#include <csignal>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

// A frame holds all registers, with AMX's tiles more than 11 kB.
constexpr size_t kStackBytes = size_t{64} * 1024;

}  // namespace

void leave_signals_to_others() {
  sigset_t left;
  sigfillset(&left);
  // What this thread does wrong by itself is nobody else's.
  for (int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS}) sigdelset(&left, own);
  pthread_sigmask(SIG_BLOCK, &left, nullptr);
}

SignalStack::SignalStack() : bytes_(std::make_unique<std::byte[]>(kStackBytes)) {
  stack_t stack{};
  stack.ss_sp = bytes_.get();
  stack.ss_size = kStackBytes;
  if (sigaltstack(&stack, nullptr) != 0) throw Bug("a stack for signals was refused");
}

SignalStack::~SignalStack() {
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  sigaltstack(&none, nullptr);
}

bool SignalStack::holds(const void* address) const {
  auto* at = static_cast<const std::byte*>(address);
  return at >= bytes_.get() && at < bytes_.get() + kStackBytes;
}

}  // namespace sigma1
