// Many nodes that do not depend on each other and are of one kind, in one launch or a few: what
// each of them works on is written to tables in device memory once, when a bundle is made. A small
// model's nodes are too short to be worth a launch each.
#pragma once

#include "sigma1/backend/device.h"

namespace sigma1::cuda {

enum class BundleKind { none, products, sums, norm_weight_gradients, adam_steps, lamb_steps };

// What a node with buffers like these (their data not set yet) can be bundled with.
BundleKind bundle_kind(const OpDef& op, const Launch& launch);

class Bundle : public Chain {
 public:
  // Of one kind; no step reads what another writes. Buffers, factors and random streams are read
  // now and not at a run. Throws Bug when the steps are not of one kind.
  explicit Bundle(std::vector<ChainStep> steps);
  void run(uint64_t step) override { of_kind_->run(step); }

 private:
  std::unique_ptr<Chain> of_kind_;
};

}  // namespace sigma1::cuda
