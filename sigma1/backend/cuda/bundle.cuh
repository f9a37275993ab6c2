// Many nodes that do not depend on each other and are of one kind, in one launch or a few: what
// each of them works on is written to tables in device memory once, when a bundle is made. A small
// model's nodes are too short to be worth a launch each.
#pragma once

#include "sigma1/backend/cuda/chain.cuh"
#include "sigma1/backend/device.h"

namespace sigma1::cuda {

enum class BundleKind { none, products, sums, norm_weight_gradients, adam_steps, lamb_steps };

// What a node with buffers like these (their data not set yet) can be bundled with.
BundleKind bundle_kind(const OpDef& op, const Launch& launch);
// Whether casts of results, and of these casts, may follow: copies of new weights.
inline bool takes_casts(BundleKind kind) {
  return kind == BundleKind::adam_steps || kind == BundleKind::lamb_steps;
}

class Bundle : public Chain {
 public:
  // Of one kind; no step reads what another writes, but for the casts that may come last. Buffers,
  // factors and random streams are read now and not at a run, except those of casts. Throws Bug
  // when the steps are not of one kind.
  explicit Bundle(std::vector<ChainStep> steps);
  void run(uint64_t step) override;
  // Only casts have results that are wanted in both orientations.
  bool turns() const override { return has_casts_; }

 private:
  std::unique_ptr<Chain> of_kind_;
  bool has_casts_ = false;
  std::vector<PointwiseChain> casts_;  // that the bundle's own kernels leave
};

}  // namespace sigma1::cuda
