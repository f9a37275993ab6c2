// What several ranks cost a step: the bytes they send each other and, where a run has measured it,
// the time.
#pragma once

#include <filesystem>
#include <string>

#include "sigma1/train/train_config.h"

namespace sigma1 {

struct RankTraffic {
  int64_t ranks = 1;
  std::string reduce, shard;
  int64_t gradient_bytes = 0;  // that are summed, as they travel
  int64_t weight_bytes = 0;    // that owners hand on
  int64_t most_sent = 0;       // by the rank that sends most
  // Medians over a run's steps, waiting for slower ranks included; 0 where none was measured.
  double exchange_seconds = 0, step_seconds = 0;

  double share() const { return exchange_seconds / step_seconds; }
};

// Of as many ranks as the config says.
RankTraffic rank_traffic(const TrainConfig& config);
// Of a run's folder: by the ranks that it last had, with the times it measured.
RankTraffic rank_traffic(TrainConfig config, const std::filesystem::path& folder);

}  // namespace sigma1
