// Random numbers as a pure function of (seed, name, step, index). Nothing is drawn in sequence, so
// any element can be computed on any thread or device, in any order, with the same bits.
#pragma once

#include <cstdint>
#include <string_view>

#include "sigma1/base/philox.h"

namespace sigma1 {

// The random numbers of one purpose ("ffn/up/weight", "dropout", …) in one step. Element i is word
// i % 4 of block i / 4, so four neighbours share a block.
class RandomStream {
 public:
  explicit RandomStream(uint64_t seed = 0, std::string_view name = {}, uint64_t step = 0);

  PhiloxBlock block(uint64_t block_index) const {
    return philox({static_cast<uint32_t>(block_index), static_cast<uint32_t>(block_index >> 32),
                   static_cast<uint32_t>(step_), static_cast<uint32_t>(step_ >> 32)},
                  key_);
  }
  uint32_t bits(uint64_t index) const { return block(index / 4).word[index % 4]; }

  double uniform(uint64_t index) const;  // in (0, 1): never 0, so its logarithm is finite
  double normal(uint64_t index) const;   // mean 0, variance 1

  PhiloxKey key() const { return key_; }
  uint64_t step() const { return step_; }

 private:
  PhiloxKey key_;
  uint64_t step_;
};

}  // namespace sigma1
