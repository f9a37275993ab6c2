// Cluster chains whose source runs on the CPU.
#pragma once

#include "sigma1/backend/cuda/cluster_source.cuh"
#include "tests/gpu/on_host/host_source.h"

namespace sigma1 {

class HostChain : public Chain {
 public:
  // Throws Bug where the steps do not fit, or the source does not compile.
  HostChain(std::span<const ChainStep> steps, const cuda::ClusterShape& shape);
  void run(uint64_t step) override;

 private:
  cuda::ClusterShape shape_;
  int64_t rows_;
  cuda::ClusterSource source_;
  const HostLibrary& library_;
};

// What the thread sanitizer says of a source for the rows of one cluster, on memory of zeros; see
// races_of_program.
std::string races_of(const std::string& source);

}  // namespace sigma1
