// Interpreted row chains whose kernel runs on the CPU.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sigma1/backend/device.h"

namespace sigma1 {

class HostRowChain : public Chain {
 public:
  // With 16 or 32 rows to a block. Throws Bug where the steps do not fit.
  HostRowChain(std::span<const ChainStep> steps, int rows_of_block);
  ~HostRowChain() override;
  HostRowChain(const HostRowChain&) = delete;
  HostRowChain& operator=(const HostRowChain&) = delete;
  void run(uint64_t step) override;

 private:
  struct Ready;
  std::unique_ptr<const Ready> ready_;
};

// What the thread sanitizer says of a chain's kernel for the rows of one block, on memory of zeros;
// see races_of_program. `waits`: as the plan has it, or no step for those before it.
std::string races_of(std::span<const ChainStep> steps, int rows_of_block, bool waits = true);

}  // namespace sigma1
