// What the kernels share that take numbers from elsewhere: a result described by where its pieces
// lie, and brought there as bytes where the format stays, else through fp32.
#pragma once

#include <algorithm>

#include "sigma1/backend/cpu/kernel.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/base/parallel.h"

namespace sigma1::cpu {

// Elements of a result that lie side by side in one input.
struct Piece {
  const Buffer* from;  // null: zeros
  int64_t first;
  int64_t count;
  bool repeated = false;  // all of them are element `first`
};

int64_t element_bytes(const Buffer& buffer);

// Whether a code of one is the same number as a code of the other.
bool same_codes(const Buffer& a, const Buffer& b);
// Whether the output has nothing to compute: the codes of the first `inputs` inputs will do.
bool moves_bytes(const Launch& launch, size_t output, size_t inputs = 1);

// The first `count` elements of a piece.
void copy_codes(const Piece& piece, int64_t count, std::byte* to, int64_t bytes);
void copy_numbers(const Piece& piece, int64_t count, float* to, float factor);

// Elements a thread takes at a time; tiles in it keep to multiples of four, as stochastic rounding
// asks.
inline constexpr int64_t kMoveGrain = 16 * kTile;

// Calls body(first, count) for all elements in tiles of kTile.
template <class Body>
void for_each_tile(int64_t elements, Body body) {
  parallel_for(static_cast<size_t>(elements), static_cast<size_t>(kMoveGrain),
               [&](size_t begin, size_t end) {
                 auto last = static_cast<int64_t>(end);
                 for (auto first = static_cast<int64_t>(begin); first < last; first += kTile) {
                   body(first, std::min(kTile, last - first));
                 }
               });
}

// piece_at(i): the longest piece that starts at element i of the output.
template <class PieceAt>
void move(const Launch& launch, size_t output, bool as_bytes, PieceAt piece_at) {
  const Buffer& out = launch.out(output);
  int64_t bytes = element_bytes(out);
  float factor = launch.factor(output);
  for_each_tile(out.count(), [&](int64_t first, int64_t count) {
    float room[kTile];
    float* to = as_bytes ? nullptr : target(out, first, room);
    for (int64_t done = 0; done < count;) {
      Piece piece = piece_at(first + done);
      int64_t n = std::min(piece.count, count - done);
      if (as_bytes) {
        copy_codes(piece, n, out.data + (first + done) * bytes, bytes);
      } else {
        copy_numbers(piece, n, to + done, factor);
      }
      done += n;
    }
    if (!as_bytes) store(out, first, count, to, launch.random[output]);
  });
}

}  // namespace sigma1::cpu
