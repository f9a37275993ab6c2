// Runs a chain of pointwise ops as one loop: what passes between them stays in the first-level
// cache and is never rounded or stored.
#pragma once

#include <span>
#include <vector>

#include "sigma1/backend/cpu/pointwise.h"

namespace sigma1::cpu {

struct FusedStep {
  TileFunction tile = nullptr;
  Launch launch;  // outputs of inner steps have no memory
  // For each input: the earlier step that computes it, or −1 when it is loaded.
  std::vector<int> producer;
};

void run_fused(std::span<const FusedStep> steps);

}  // namespace sigma1::cpu
