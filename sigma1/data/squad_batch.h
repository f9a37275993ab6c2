// Windows of SQuAD as the inputs of model `bert_squad` (models/bert.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sigma1/data/squad_features.h"

namespace sigma1 {

struct SquadBatch {
  std::vector<int32_t> tokens, segments;
  std::vector<float> padding;
  std::vector<int32_t> start, end;
};

// The windows with these indices, each padded to `time` tokens. Throws Bug when one is longer.
SquadBatch squad_batch(const SquadFeatures& features, std::span<const size_t> windows,
                       int64_t time);

}  // namespace sigma1
