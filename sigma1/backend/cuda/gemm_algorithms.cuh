// Which of cuBLASLt's algorithms a product takes: timed once for each shape and kept in a file, so
// that the next run begins at once and has the same bits. Private to this folder.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sigma1/backend/cuda/gemm_library.cuh"

namespace sigma1::cuda::library {

// Names product, GPU and version of the library: what was found holds for these alone.
std::string cache_key(const Product& product);

// The file is $XDG_CACHE_HOME/sigma1/cublaslt.txt, or below ~/.cache; without a home nothing is
// kept but in memory. A line that cannot be read is as if it were not there.
std::optional<Algorithm> recall_algorithm(const std::string& key);
void remember_algorithm(const std::string& key, const Algorithm& algorithm);

// The fastest, on numbers of its own. Of those that are alike the library's first guess.
Algorithm time_algorithms(const Product& product, Recipe recipe,
                          const std::vector<Algorithm>& candidates);

}  // namespace sigma1::cuda::library
