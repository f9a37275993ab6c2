// What the memory of a training run goes to, planned without taking any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sigma1/backend/device.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {

struct MemoryShare {
  // parameters, copies (of parameters, as products read them), gradients, states: from step to
  // step. activations, backward: in the arena when it holds most, the first what forward left for
  // backward; by the op that computed them.
  std::string kind, op;
  int64_t tensors = 0, bytes = 0;
};

struct MemoryTable {
  std::vector<MemoryShare> shares;
  int64_t arena = 0;  // as planned: at least what it holds at its peak
  int64_t total() const;
};

// Of a model whose sizes are all set. What kernels need to work in comes on top.
MemoryTable memory_table(const TrainConfig& config, const Device& device);

}  // namespace sigma1
