// Loops over all numbers of a tensor, tile by tile.
#pragma once

#include <algorithm>

#include "sigma1/backend/cpu/kernel.h"
#include "sigma1/base/parallel.h"

namespace sigma1::cpu {

inline constexpr int64_t kTileBlock = 16 * kTile;  // what a thread takes at a time

// Calls body(first, count) for every tile of [0, size), in parallel over blocks.
template <class Body>
void for_each_tile(int64_t size, Body body) {
  parallel_for(static_cast<size_t>(size), static_cast<size_t>(kTileBlock),
               [&](size_t begin, size_t end) {
                 for (auto first = static_cast<int64_t>(begin); first < static_cast<int64_t>(end);
                      first += kTile) {
                   body(first, std::min(kTile, static_cast<int64_t>(end) - first));
                 }
               });
}

}  // namespace sigma1::cpu
