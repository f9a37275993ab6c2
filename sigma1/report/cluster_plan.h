// What a step of data-parallel training would take on many GPUs, from one GPU's step time, the
// bytes that the model's collectives move and the speed of the links. Arithmetic, no measurement:
// it says where a run would wait for its links or not fit, before anyone rents them.
#pragma once

#include <cstdint>
#include <string>

#include "sigma1/train/memory_table.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {

struct Cluster {
  int64_t node = 8;                 // GPUs that have the fast link to each other
  double near = 450e9, far = 50e9;  // bytes a second that a GPU sends, in and out of its node
  double memory = 141e9;            // bytes
};

struct PlanInput {
  TrainConfig config;     // of one rank, its sizes all set
  double seconds = 0;     // one GPU's forward, backward and update of a batch
  int64_t sequences = 0;  // of a step over all ranks; 0: batch x accumulate of each
  // What the engine does not do: exchange while backward still runs, and sum within a node first,
  // shares cut evenly.
  bool overlaps = false, by_nodes = false;
  Cluster cluster;
};

struct PlanRow {
  int64_t gpus = 1;
  int64_t batches = 1;  // that a rank adds up
  double tokens = 0;    // of a step
  double memory = 0;    // bytes of the rank that holds most
  bool fits = true;
  double near_bytes = 0, far_bytes = 0;              // over the busiest GPU's links
  double exchange_seconds = 0, exposed_seconds = 0;  // all of it, and what a step waits for
  double step_seconds = 0;
  double efficiency = 0;  // of a GPU, beside one alone that has nobody to wait for
};

// `alone` is what one rank holds without shares.
PlanRow plan_ranks(const PlanInput& input, const MemoryTable& alone, int64_t gpus);

// Exchanges are hidden under two thirds of a step, as backward is of its products.
inline constexpr double kBackwardShare = 2.0 / 3;

}  // namespace sigma1
