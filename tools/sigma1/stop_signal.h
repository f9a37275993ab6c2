// Ctrl-C and a scheduler's SIGTERM or SIGUSR1 as a question that can be asked between steps, so
// that work in progress is saved. A second signal ends the program at once.
#pragma once

#include "sigma1/base/signals.h"

namespace sigma1 {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  bool arrived() const;

 private:
  SignalStack stack_;
};

}  // namespace sigma1
