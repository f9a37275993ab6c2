// The gradient of kept attention whose dq, dk and dv are put together and cast to E5M2, as one
// call: its kernel writes the codes, in both orientations, and adds up their columns, which is the
// gradient of a bias. The whole is never there in another format. Private to this folder.
#pragma once

#include <optional>
#include <vector>

#include "sigma1/backend/device.h"

namespace sigma1::cuda {

// Whether the steps of a NodeGroup::Kind::joined are such a chain, and whether it takes a sum
// along. Data need not be set.
bool is_codes_chain(std::span<const ChainStep> steps);
bool codes_take_sum(std::span<const ChainStep> steps, const ChainStep& sum);

class KeptCodesChain : public Chain {
 public:
  // The last may be a sum that the others take.
  explicit KeptCodesChain(std::vector<ChainStep> steps);
  void run(uint64_t step) override;
  bool turns() const override { return true; }
  int64_t workspace() const override;
  void set_workspace(std::byte* memory) override { memory_ = memory; }

 private:
  std::vector<ChainStep> steps_;
  std::optional<ChainStep> sum_;
  std::byte* memory_ = nullptr;
};

}  // namespace sigma1::cuda
