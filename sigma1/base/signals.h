// Signals beside matrix products. Kernels that oneDNN writes at run time use the stack pointer like
// any other register: a signal that arrives meanwhile has its handler's frame written over whatever
// the kernel works on. So threads that multiply are left alone, and the one that has to take
// signals takes them on a stack of their own.
#pragma once

#include <cstddef>
#include <memory>

namespace sigma1 {

// From now on other threads get this process's signals.
void leave_signals_to_others();

// Where handlers of this thread run that were installed with SA_ONSTACK.
class SignalStack {
 public:
  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;
  SignalStack& operator=(const SignalStack&) = delete;

  bool holds(const void* address) const;

 private:
  std::unique_ptr<std::byte[]> bytes_;
};

}  // namespace sigma1
