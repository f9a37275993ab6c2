// Sums over ranks. Every number of a bucket has one rank that adds it up, from what all ranks sent,
// in fp32 and in their order: no two runs can differ, however messages travel.
#include "sigma1/ops/collective.h"

#include "sigma1/backend/collective_layout.h"
#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/tiles.h"
#include "sigma1/backend/cpu/vectors.h"

namespace sigma1::cpu {
namespace {

using namespace collective;

int64_t aligned_bytes(int64_t bytes) { return rounded_up(bytes, 64); }

// `count` numbers from one buffer to another, times a factor.
void convey(const Buffer& from, int64_t from_first, const Buffer& to, int64_t to_first,
            int64_t count, float factor, const RandomStream& random = RandomStream()) {
  for_each_tile(count, [&](int64_t first, int64_t size) {
    float room[kTile], scaled[kTile];
    vectors().scale(load(from, from_first + first, size, room), scaled, size, factor);
    store(to, to_first + first, size, scaled, random);
  });
}

// Σ of rows of `count` numbers, `stride` apart, times a factor.
void sum_ranks(const Buffer& rows, int64_t rows_first, int64_t stride, int64_t world,
               const Buffer& to, int64_t to_first, int64_t count, float factor,
               const RandomStream& random = RandomStream()) {
  for_each_tile(count, [&](int64_t first, int64_t size) {
    float room[kTile], sum[kTile];
    vectors().scale(load(rows, rows_first + first, size, room), sum, size, 1);
    for (int64_t r = 1; r < world; ++r) {
      const float* x = load(rows, r * stride + rows_first + first, size, room);
      vectors().add_scaled(x, sum, size, 1);
    }
    if (factor != 1) vectors().scale(sum, sum, size, factor);
    store(to, to_first + first, size, sum, random);
  });
}

// The workspace of a collective: pieces to send and to receive, then two stretches of bytes.
struct Room {
  std::span<Piece> sends, receives;
  std::byte *packed, *received;

  static int64_t bytes(int64_t world, int64_t packed, int64_t received) {
    return pieces_bytes(world) + aligned_bytes(packed) + aligned_bytes(received);
  }
  Room(const Launch& launch, int64_t world, int64_t packed_bytes) {
    auto* pieces = reinterpret_cast<Piece*>(launch.workspace.data());
    auto count = static_cast<size_t>(world);
    sends = {pieces, count};
    receives = {pieces + count, count};
    packed = launch.workspace.data() + pieces_bytes(world);
    received = packed + aligned_bytes(packed_bytes);
  }

 private:
  static int64_t pieces_bytes(int64_t world) {
    return aligned_bytes(2 * world * static_cast<int64_t>(sizeof(Piece)));
  }
};

void run_all_reduce(const Launch& launch) {
  int64_t world = checked_world(launch), rank = ranks().rank();
  EvenCut cut(launch);
  int64_t width = bytes_per_number(wire_of(launch, nullptr));
  Room room(launch, world, cut.total * width);
  Buffer packed = wire_of(launch, room.packed), received = wire_of(launch, room.received);
  int64_t next = 0;
  for (const Buffer& each : launch.inputs) {
    convey(each, 0, packed, next, each.count(), 1);
    next += each.count();
  }
  int64_t own = cut.count(rank);
  fill_for_sums(cut, rank, width, room.packed, room.received, room.sends, room.receives);
  ranks().exchange(room.sends, room.receives);
  sum_ranks(received, 0, own, world, packed, cut.first(rank), own, 1);
  fill_for_all(cut, rank, width, room.packed, room.sends, room.receives);
  ranks().exchange(room.sends, room.receives);
  next = 0;
  for (size_t i = 0; i < launch.outputs.size(); ++i) {
    convey(packed, next, launch.out(i), 0, launch.out(i).count(), launch.factor(i),
           launch.random[i]);
    next += launch.out(i).count();
  }
}

int64_t all_reduce_workspace(const Launch& launch) {
  EvenCut cut(launch);
  int64_t width = bytes_per_number(wire_of(launch, nullptr));
  return Room::bytes(cut.world, cut.total * width, cut.world * cut.count(0) * width);
}

void run_reduce_scatter(const Launch& launch) {
  int64_t world = checked_world(launch), rank = ranks().rank();
  OwnersCut cut{launch, count_of};
  int64_t width = bytes_per_number(wire_of(launch, nullptr));
  Room room(launch, world, total_count(launch) * width);
  Buffer packed = wire_of(launch, room.packed), received = wire_of(launch, room.received);
  cut.for_each([&](size_t i, int64_t first) {
    convey(launch.in(i), 0, packed, first, launch.in(i).count(), 1);
  });
  fill_for_sums(cut, rank, width, room.packed, room.received, room.sends, room.receives);
  ranks().exchange(room.sends, room.receives);
  int64_t own = cut.count(rank), own_first = cut.first(rank);
  cut.for_each([&](size_t i, int64_t first) {
    const Buffer& out = launch.out(i);
    if (owners_of(launch)[i] == rank) {
      sum_ranks(received, first - own_first, own, world, out, 0, out.count(), launch.factor(i),
                launch.random[i]);
    } else if (out.data != launch.in(i).data) {
      convey(launch.in(i), 0, out, 0, out.count(), launch.factor(i), launch.random[i]);
    }
  });
}

int64_t reduce_scatter_workspace(const Launch& launch) {
  OwnersCut cut{launch, count_of};
  int64_t width = bytes_per_number(wire_of(launch, nullptr));
  return Room::bytes(cut.world, total_count(launch) * width, cut.world * cut.most() * width);
}

// Each tensor travels as it is stored.
void run_all_gather(const Launch& launch) {
  int64_t world = checked_world(launch), rank = ranks().rank();
  OwnersCut cut{launch, stored_bytes};
  Room room(launch, world, 0);
  auto stored = [&](size_t i, int64_t first) {
    return Buffer{room.packed + first, launch.in(i).codec, {}};
  };
  cut.for_each([&](size_t i, int64_t first) {
    if (owners_of(launch)[i] != rank) return;
    convey(launch.in(i), 0, stored(i, first), 0, launch.in(i).count(), 1);
  });
  fill_for_all(cut, rank, 1, room.packed, room.sends, room.receives);
  ranks().exchange(room.sends, room.receives);
  cut.for_each([&](size_t i, int64_t first) {
    const Buffer& out = launch.out(i);
    convey(stored(i, first), 0, out, 0, out.count(), launch.factor(i), launch.random[i]);
  });
}

int64_t all_gather_workspace(const Launch& launch) {
  OwnersCut cut{launch, stored_bytes};
  return Room::bytes(cut.world, cut.first(cut.world), 0);
}

bool each_in_place(size_t input, size_t output) { return input == output; }

constexpr Kernel kKernels[] = {
    {&all_reduce_op, run_all_reduce, all_reduce_workspace, each_in_place},
    {&reduce_scatter_op, run_reduce_scatter, reduce_scatter_workspace, each_in_place},
    {&all_gather_op, run_all_gather, all_gather_workspace, each_in_place}};

}  // namespace

std::span<const Kernel> collective_kernels() { return kKernels; }

}  // namespace sigma1::cpu
