// Runs a chain of pointwise ops as one kernel: what passes between them stays with the thread and
// is never rounded or stored. A chain is interpreted, so that no chain needs a compiler.
#pragma once

#include <optional>
#include <vector>

#include "sigma1/backend/device.h"

namespace sigma1::cuda {

// What a chain can hold.
bool is_pointwise(const OpDef& op);

// Instructions of one kernel, and how many an op of so many inputs takes.
inline constexpr size_t kMostInstructions = 16;
constexpr size_t instructions_for(size_t inputs) { return inputs > 2 ? inputs - 1 : 1; }
// Whether the steps are short enough for a chain.
bool fits(std::span<const ChainStep> steps);
// Whether a sum is over all axes but the last, of a tensor with as many numbers and columns.
bool sums_columns(const Launch& sum, const Buffer& of);
// Whether a chain also computes a sum over all axes but the last of what one of its steps computes
// or, where no step does, of what the first one reads. Data need not be set.
bool takes_sum(std::span<const ChainStep> steps, const ChainStep& sum);

class PointwiseChain : public Chain {
 public:
  // Throws Bug when they do not fit. Buffers and random streams are read at every run. Where a step
  // names no producers, all its inputs are loaded. The last may be a sum that the others take.
  explicit PointwiseChain(std::vector<ChainStep> steps);
  void run(uint64_t step) override;
  bool turns() const override { return true; }
  int64_t workspace() const override;
  void set_workspace(std::byte* memory) override { partials_ = reinterpret_cast<float*>(memory); }

 private:
  std::vector<ChainStep> steps_;
  std::optional<ChainStep> sum_;
  float* partials_ = nullptr;
};

// One op by itself, with as many inputs as it may have; `workspace` as a Kernel's.
void run_pointwise(const OpDef& op, const Launch& launch);
int64_t pointwise_workspace(const Launch& launch);

}  // namespace sigma1::cuda
