// Runs a chain of row-local ops as one kernel whose blocks work together in clusters, each with a
// slice of all weights (cluster_source.cuh). Private to this folder.
#pragma once

#include "sigma1/backend/cuda/cluster_source.cuh"

namespace sigma1::cuda {

// The shape in which so many rows are done soonest on the calling thread's device.
ClusterShape cluster_shape(int64_t rows);

// Whether row-local steps, in an order in which they can be run, go into one such kernel.
bool fits_cluster(std::span<const ChainStep> steps);

// Results are rounded like those of the steps' own kernels.
class ClusterChain : public Chain {
 public:
  // Throws Bug when the steps do not fit.
  explicit ClusterChain(std::span<const ChainStep> steps);
  ClusterChain(std::span<const ChainStep> steps, const ClusterShape& shape);
  void run(uint64_t step) override;

 private:
  ClusterShape shape_;
  unsigned blocks_;
  size_t shared_bytes_;
  std::vector<std::byte> parameters_;
  const void* kernel_;
};

}  // namespace sigma1::cuda
