// Where tensors lie in one arena: two may share bytes when their lives do not overlap.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sigma1 {

// From the instruction that writes it to the last that reads it, both included.
struct Lifetime {
  int first = 0, last = 0;
  int64_t bytes = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  // of each tensor, multiples of kArenaAlignment
  int64_t bytes = 0;             // of the arena
  int64_t lower_bound = 0;       // the most that is alive at once: no plan can need less
};

inline constexpr int64_t kArenaAlignment = 64;

MemoryPlan plan_memory(std::span<const Lifetime> tensors);

}  // namespace sigma1
