// Sums over ranks. Every number of a bucket has one rank that adds it up, from what all ranks sent,
// in fp32 and in their order: no two runs can differ, however messages travel.
#include "sigma1/ops/collective.h"

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/tiles.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/base/communicator.h"
#include "sigma1/base/error.h"
#include "sigma1/passes/precision.h"

namespace sigma1::cpu {
namespace {

using Piece = Communicator::Piece;
constexpr int64_t kAlignment = 64;

int64_t aligned_bytes(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

const std::vector<int64_t>& owners_of(const Launch& launch) {
  return launch.attr<std::vector<int64_t>>("owners");
}

int64_t total_count(const Launch& launch) {
  int64_t total = 0;
  for (const Buffer& each : launch.inputs) total += each.count();
  return total;
}

// Numbers on their way, without shape.
Buffer wire_of(const Launch& launch, std::byte* data) {
  return {data, shared_codec(storage_cast(launch.attr<std::string>("format"))), {}};
}

int64_t bytes_per_number(const Buffer& buffer) {
  return buffer.codec ? buffer.codec->bytes() : static_cast<int64_t>(sizeof(float));
}

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

int64_t checked_world(const Launch& launch) {
  auto world = launch.attr<int64_t>("world");
  if (world != ranks().size()) throw Bug("a graph for {} ranks runs in {}", world, ranks().size());
  return world;
}

// A bucket of numbers cut evenly: rank r adds up those from r · chunk on.
struct EvenCut {
  int64_t world, total, chunk;

  explicit EvenCut(const Launch& launch)
      : world(launch.attr<int64_t>("world")), total(total_count(launch)) {
    constexpr int64_t kWhole = 16;  // numbers, so that no piece begins amid a block of a codec
    chunk = ((total + world - 1) / world + kWhole - 1) / kWhole * kWhole;
  }
  int64_t first(int64_t rank) const { return std::min(rank * chunk, total); }
  int64_t count(int64_t rank) const { return first(rank + 1) - first(rank); }
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
  for (int64_t r = 0; r < world; ++r) {
    auto i = static_cast<size_t>(r);
    room.sends[i] = {room.packed + cut.first(r) * width, cut.count(r) * width};
    room.receives[i] = {room.received + r * own * width, own * width};
  }
  ranks().exchange(room.sends, room.receives);
  sum_ranks(received, 0, own, world, packed, cut.first(rank), own, 1);
  Piece sums = room.sends[static_cast<size_t>(rank)];
  for (int64_t r = 0; r < world; ++r) {
    auto i = static_cast<size_t>(r);
    room.receives[i] = {room.packed + cut.first(r) * width, cut.count(r) * width};
    room.sends[i] = sums;
  }
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

// Where each tensor lies in a bucket that is sorted by owner.
template <class Size, class Body>
void for_each_by_owner(const Launch& launch, Size size, Body body) {
  int64_t next = 0;
  for (int64_t owner = 0; owner < launch.attr<int64_t>("world"); ++owner) {
    for (size_t i = 0; i < launch.inputs.size(); ++i) {
      if (owners_of(launch)[i] != owner) continue;
      body(i, next);
      next += size(launch.in(i));
    }
  }
}

// How much a rank owns.
template <class Size>
int64_t owned(const Launch& launch, int64_t rank, Size size) {
  int64_t sum = 0;
  for (size_t i = 0; i < launch.inputs.size(); ++i) {
    if (owners_of(launch)[i] == rank) sum += size(launch.in(i));
  }
  return sum;
}

int64_t count_of(const Buffer& buffer) { return buffer.count(); }
int64_t bytes_of(const Buffer& buffer) { return buffer.count() * bytes_per_number(buffer); }

void run_reduce_scatter(const Launch& launch) {
  int64_t world = checked_world(launch), rank = ranks().rank();
  int64_t width = bytes_per_number(wire_of(launch, nullptr));
  Room room(launch, world, total_count(launch) * width);
  Buffer packed = wire_of(launch, room.packed), received = wire_of(launch, room.received);
  for_each_by_owner(launch, count_of, [&](size_t i, int64_t first) {
    convey(launch.in(i), 0, packed, first, launch.in(i).count(), 1);
  });
  int64_t own = owned(launch, rank, count_of), next = 0, own_first = 0;
  for (int64_t r = 0; r < world; ++r) {
    auto i = static_cast<size_t>(r);
    int64_t count = owned(launch, r, count_of);
    if (r == rank) own_first = next;
    room.sends[i] = {room.packed + next * width, count * width};
    room.receives[i] = {room.received + r * own * width, own * width};
    next += count;
  }
  ranks().exchange(room.sends, room.receives);
  for_each_by_owner(launch, count_of, [&](size_t i, int64_t first) {
    const Buffer& out = launch.out(i);
    if (owners_of(launch)[i] == rank) {
      sum_ranks(received, first - own_first, own, world, out, 0, out.count(), launch.factor(i),
                launch.random[i]);
    } else if (out.data != launch.in(i).data) {
      convey(launch.in(i), 0, out, 0, out.count(), launch.factor(i), launch.random[i]);
    }
  });
}

int64_t most_owned(const Launch& launch) {
  int64_t most = 0;
  for (int64_t r = 0; r < launch.attr<int64_t>("world"); ++r) {
    most = std::max(most, owned(launch, r, count_of));
  }
  return most;
}

int64_t reduce_scatter_workspace(const Launch& launch) {
  auto world = launch.attr<int64_t>("world");
  int64_t width = bytes_per_number(wire_of(launch, nullptr));
  return Room::bytes(world, total_count(launch) * width, world * most_owned(launch) * width);
}

// Each tensor travels as it is stored.
void run_all_gather(const Launch& launch) {
  int64_t world = checked_world(launch), rank = ranks().rank();
  Room room(launch, world, 0);
  auto stored = [&](size_t i, int64_t first) {
    return Buffer{room.packed + first, launch.in(i).codec, {}};
  };
  for_each_by_owner(launch, bytes_of, [&](size_t i, int64_t first) {
    if (owners_of(launch)[i] != rank) return;
    convey(launch.in(i), 0, stored(i, first), 0, launch.in(i).count(), 1);
  });
  int64_t next = 0;
  for (int64_t r = 0; r < world; ++r) {
    int64_t bytes = owned(launch, r, bytes_of);
    room.receives[static_cast<size_t>(r)] = {room.packed + next, bytes};
    next += bytes;
  }
  for (Piece& each : room.sends) each = room.receives[static_cast<size_t>(rank)];
  ranks().exchange(room.sends, room.receives);
  for_each_by_owner(launch, bytes_of, [&](size_t i, int64_t first) {
    const Buffer& out = launch.out(i);
    convey(stored(i, first), 0, out, 0, out.count(), launch.factor(i), launch.random[i]);
  });
}

int64_t all_gather_workspace(const Launch& launch) {
  int64_t total = 0;
  for (const Buffer& each : launch.inputs) total += bytes_of(each);
  return Room::bytes(launch.attr<int64_t>("world"), total, 0);
}

bool each_in_place(size_t input, size_t output) { return input == output; }

constexpr Kernel kKernels[] = {
    {&all_reduce_op, run_all_reduce, all_reduce_workspace, each_in_place},
    {&reduce_scatter_op, run_reduce_scatter, reduce_scatter_workspace, each_in_place},
    {&all_gather_op, run_all_gather, all_gather_workspace, each_in_place}};

}  // namespace

std::span<const Kernel> collective_kernels() { return kKernels; }

}  // namespace sigma1::cpu
