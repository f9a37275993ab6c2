// Where the parts of a collective's bucket lie, the same on every device: each number has one rank
// that adds it up, or one that has it for all. Which bytes go where follows from that.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "sigma1/backend/kernel.h"
#include "sigma1/base/communicator.h"

namespace sigma1::collective {

using Piece = Communicator::Piece;

inline int64_t rounded_up(int64_t number, int64_t unit) {
  return (number + unit - 1) / unit * unit;
}

// Throws Bug where the graph was made for another number of ranks than there are.
int64_t checked_world(const Launch& launch);
const std::vector<int64_t>& owners_of(const Launch& launch);
int64_t total_count(const Launch& launch);
int64_t bytes_per_number(const Buffer& buffer);
// Numbers on their way, without shape.
Buffer wire_of(const Launch& launch, std::byte* data);

// How much of a bucket a tensor takes that is sent as numbers, and one that is sent as it is
// stored, where any machine may load it.
inline int64_t count_of(const Buffer& buffer) { return buffer.count(); }
inline int64_t stored_bytes(const Buffer& buffer) {
  return rounded_up(buffer.count() * bytes_per_number(buffer), 16);
}

// A bucket of numbers cut evenly among the ranks.
struct EvenCut {
  int64_t world, total, chunk;

  explicit EvenCut(const Launch& launch)
      : world(launch.attr<int64_t>("world")), total(total_count(launch)) {
    constexpr int64_t kWhole = 16;  // numbers, so that no piece begins amid a block of a codec
    chunk = rounded_up((total + world - 1) / world, kWhole);
  }
  int64_t first(int64_t rank) const { return std::min(rank * chunk, total); }
  int64_t count(int64_t rank) const { return first(rank + 1) - first(rank); }
};

// A bucket sorted by the tensors' owners.
struct OwnersCut {
  const Launch& launch;
  int64_t (*size)(const Buffer&);
  int64_t world = launch.attr<int64_t>("world");

  int64_t first(int64_t rank) const;
  int64_t count(int64_t rank) const { return first(rank + 1) - first(rank); }
  int64_t most() const;  // of a rank
  // With each tensor's number and where it lies.
  template <class Body>
  void for_each(Body body) const {
    int64_t next = 0;
    for (int64_t owner = 0; owner < world; ++owner) {
      for (size_t i = 0; i < launch.inputs.size(); ++i) {
        if (owners_of(launch)[i] != owner) continue;
        body(i, next);
        next += size(launch.in(i));
      }
    }
  }
};

// Every rank's numbers to those that add them up; what comes lies one rank after the other.
template <class Cut>
void fill_for_sums(const Cut& cut, int64_t rank, int64_t width, std::byte* packed,
                   std::byte* received, std::span<Piece> sends, std::span<Piece> receives) {
  int64_t own = cut.count(rank) * width;
  for (int64_t r = 0; r < cut.world; ++r) {
    auto i = static_cast<size_t>(r);
    sends[i] = {packed + cut.first(r) * width, cut.count(r) * width};
    receives[i] = {received + r * own, own};
  }
}

// Every rank's part to all others.
template <class Cut>
void fill_for_all(const Cut& cut, int64_t rank, int64_t width, std::byte* packed,
                  std::span<Piece> sends, std::span<Piece> receives) {
  for (int64_t r = 0; r < cut.world; ++r) {
    receives[static_cast<size_t>(r)] = {packed + cut.first(r) * width, cut.count(r) * width};
  }
  std::ranges::fill(sends, receives[static_cast<size_t>(rank)]);
}

}  // namespace sigma1::collective
