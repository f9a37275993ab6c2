// How kernels cut their work: by its size alone, into pieces of some ten thousand elements.
#pragma once

#include <algorithm>

#include "sigma1/backend/cpu/kernel.h"
#include "sigma1/base/parallel.h"

namespace sigma1::cpu {

constexpr int64_t kPiece = 16 * kTile;

inline int64_t row_length(const Buffer& buffer) {
  return buffer.shape.empty() ? 1 : buffer.shape.back();
}

inline int64_t tile_count(int64_t elements) { return (elements + kTile - 1) / kTile; }

// Calls body(begin, end) for pieces of [0, rows).
template <class Body>
void for_rows(int64_t rows, int64_t length, Body body) {
  int64_t grain = std::max<int64_t>(1, kPiece / std::max<int64_t>(1, length));
  parallel_for(static_cast<size_t>(rows), static_cast<size_t>(grain),
               [&](size_t begin, size_t end) {
                 body(static_cast<int64_t>(begin), static_cast<int64_t>(end));
               });
}

// Calls body(first, count) for tiles of [0, elements).
template <class Body>
void for_tiles(int64_t elements, Body body) {
  parallel_for(static_cast<size_t>(elements), kPiece, [&](size_t begin, size_t end) {
    for (auto first = static_cast<int64_t>(begin); first < static_cast<int64_t>(end);
         first += kTile) {
      body(first, std::min(kTile, static_cast<int64_t>(end) - first));
    }
  });
}

}  // namespace sigma1::cpu
