// A chain of row-local ops as source code of its own, for a cluster of blocks that compute some
// rows together: each has a slice of every product's weights in shared memory, and numbers go from
// block to block between products. All sizes and places are constants of the source; chains that
// differ in nothing but addresses and factors, such as those of a model's layers, have the same
// one. Private to this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sigma1/backend/cuda/cluster_sizes.cuh"
#include "sigma1/backend/device.h"

namespace sigma1::cuda {

struct ClusterShape {
  int rows = 64;  // of a cluster, a multiple of 16 and of the blocks
  int ranks = 4;  // blocks of it: 2, 4 or 8

  int64_t blocks(int64_t all_rows) const { return (all_rows + rows - 1) / rows * ranks; }
  int threads() const { return rows / 16 * column_warps(ranks) * 32; }
};

struct ClusterSource {
  std::string text;
  int shared_bytes = 0;
  std::vector<const std::byte*> memory;
  std::vector<float> factors;

  // The kernel's (ClusterParameters), for so many rows.
  std::vector<std::byte> parameters(int64_t rows) const;
};

// For row-local steps in an order in which they can be run; results with memory are stored there.
// Nothing where they have more than one format, or for which there is no room.
std::optional<ClusterSource> cluster_source(std::span<const ChainStep> steps,
                                            const ClusterShape& shape);

}  // namespace sigma1::cuda
