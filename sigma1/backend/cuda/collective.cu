// Sums over ranks on GPUs: bytes travel by a RankLink, and each number is added up by one rank, in
// fp32 and in the order of ranks, as on the CPU.
#include "sigma1/ops/collective.h"

#include "sigma1/backend/collective_layout.h"
#include "sigma1/backend/cuda/collective.cuh"
#include "sigma1/backend/cuda/four.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/rank_link.cuh"

namespace sigma1::cuda {
namespace {

using namespace collective;

// Σ of rows that lie `stride` bytes apart, times a factor. One row: a copy to another format.
struct RowSum {
  Input rows;  // the first
  int64_t stride;
  Output to;
  float factor;
};

constexpr int kMostSums = 64, kPiece = 8192;

// Many in one launch, cut into pieces for a block each.
struct RowSums {
  RowSum at[kMostSums];
  int first_block[kMostSums];
  int64_t rows;
  int count = 0, blocks = 0;
};

__global__ void add_rows(const __grid_constant__ RowSums sums) {
  auto block = static_cast<int>(blockIdx.x);
  int low = 0, high = sums.count;  // the last that begins at this block or before
  while (high - low > 1) {
    int middle = (low + high) / 2;
    (sums.first_block[middle] <= block ? low : high) = middle;
  }
  const RowSum& sum = sums.at[low];
  int64_t count = sum.to.view.count, begin = int64_t{block - sums.first_block[low]} * kPiece;
  int64_t end = min(count, begin + kPiece);
  for (int64_t first = begin + 4 * threadIdx.x; first < end; first += 4 * blockDim.x) {
    Input row = sum.rows;
    Four total = read(row, first, count);
    for (int64_t r = 1; r < sums.rows; ++r) {
      row.view.data = static_cast<char*>(row.view.data) + sum.stride;
      Four more = read(row, first, count);
#pragma unroll
      for (int k = 0; k < 4; ++k) total.at[k] += more.at[k];
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) total.at[k] *= sum.factor;
    write(sum.to, first, total);
  }
}

// Launches what it is given when it has enough, or goes.
class RowAdder {
 public:
  explicit RowAdder(int64_t rows) { sums_.rows = rows; }

  // `stride` in numbers; `from` is as long as `to`.
  void add(const Buffer& from, int64_t stride, const Output& to, float factor) {
    if (from.count() == 0) return;
    Input rows = input_of(from);
    rows.packs = rows.packs && stride % 4 == 0;
    sums_.at[sums_.count] = {rows, stride * bytes_per_number(from), to, factor};
    sums_.first_block[sums_.count++] = sums_.blocks;
    sums_.blocks += static_cast<int>((from.count() + kPiece - 1) / kPiece);
    if (sums_.count == kMostSums) launch();
  }

  void launch() {
    if (sums_.count == 0) return;
    add_rows<<<static_cast<unsigned>(sums_.blocks), kThreads, 0, stream()>>>(sums_);
    check(cudaGetLastError(), "a collective");
    sums_.count = sums_.blocks = 0;
  }

 private:
  RowSums sums_;
};

// `count` numbers of a buffer, from one on.
Buffer part_of(const Buffer& buffer, int64_t first, int64_t count) {
  Buffer part = buffer;
  part.data += first * bytes_per_number(buffer);
  part.shape = {count};
  return part;
}

// For what is only on its way.
Output passing(const Buffer& buffer) {
  Input same = input_of(buffer);
  return {same.view, same.packs};
}

// The workspace: what is sent, then what comes.
struct Room {
  Buffer packed, received;
  int64_t width;
  std::vector<Piece> sends, receives;

  Room(const Launch& launch, int64_t packed_numbers)
      : packed(wire_of(launch, launch.workspace.data())),
        width(bytes_per_number(packed)),
        sends(static_cast<size_t>(checked_world(launch))),
        receives(sends) {
    received = packed;
    received.data += rounded_up(packed_numbers * width, 64);
  }
  static int64_t bytes(const Launch& launch, int64_t packed_numbers, int64_t received_numbers) {
    int64_t each = bytes_per_number(wire_of(launch, nullptr));
    return rounded_up(packed_numbers * each, 64) + rounded_up(received_numbers * each, 64);
  }
  void exchange() const { rank_link().exchange(sends, receives); }
};

void run_all_reduce(const Launch& launch) {
  EvenCut cut(launch);
  Room room(launch, cut.total);
  int64_t rank = ranks().rank(), own = cut.count(rank), next = 0;
  RowAdder pack(1), sum(cut.world), unpack(1);
  for (const Buffer& each : launch.inputs) {
    pack.add(each, 0, passing(part_of(room.packed, next, each.count())), 1);
    next += each.count();
  }
  pack.launch();
  fill_for_sums(cut, rank, room.width, room.packed.data, room.received.data, room.sends,
                room.receives);
  room.exchange();
  sum.add(part_of(room.received, 0, own), own, passing(part_of(room.packed, cut.first(rank), own)),
          1);
  sum.launch();
  fill_for_all(cut, rank, room.width, room.packed.data, room.sends, room.receives);
  room.exchange();
  next = 0;
  for (size_t i = 0; i < launch.outputs.size(); ++i) {
    int64_t count = launch.out(i).count();
    unpack.add(part_of(room.packed, next, count), 0, output_of(launch, i), launch.factor(i));
    next += count;
  }
  unpack.launch();
}

int64_t all_reduce_workspace(const Launch& launch) {
  EvenCut cut(launch);
  return Room::bytes(launch, cut.total, cut.world * cut.count(0));
}

void run_reduce_scatter(const Launch& launch) {
  OwnersCut cut{launch, count_of};
  Room room(launch, total_count(launch));
  int64_t rank = ranks().rank(), own = cut.count(rank), own_first = cut.first(rank);
  RowAdder pack(1), sum(cut.world), keep(1);
  cut.for_each([&](size_t i, int64_t first) {
    int64_t count = launch.in(i).count();
    pack.add(launch.in(i), 0, passing(part_of(room.packed, first, count)), 1);
  });
  pack.launch();
  fill_for_sums(cut, rank, room.width, room.packed.data, room.received.data, room.sends,
                room.receives);
  room.exchange();
  cut.for_each([&](size_t i, int64_t first) {
    const Buffer& out = launch.out(i);
    if (owners_of(launch)[i] == rank) {
      sum.add(part_of(room.received, first - own_first, out.count()), own, output_of(launch, i),
              launch.factor(i));
    } else if (out.data != launch.in(i).data) {
      keep.add(launch.in(i), 0, output_of(launch, i), launch.factor(i));
    }
  });
  sum.launch();
  keep.launch();
}

int64_t reduce_scatter_workspace(const Launch& launch) {
  OwnersCut cut{launch, count_of};
  return Room::bytes(launch, total_count(launch), cut.world * cut.most());
}

// Each tensor travels as it is stored.
void run_all_gather(const Launch& launch) {
  OwnersCut cut{launch, stored_bytes};
  std::vector<Piece> sends(static_cast<size_t>(checked_world(launch))), receives(sends);
  std::byte* packed = launch.workspace.data();
  int64_t rank = ranks().rank();
  auto stored = [&](size_t i, int64_t first) {
    Buffer buffer = launch.in(i);
    buffer.data = packed + first;
    return buffer;
  };
  RowAdder pack(1), unpack(1);
  cut.for_each([&](size_t i, int64_t first) {
    if (owners_of(launch)[i] != rank) return;
    pack.add(launch.in(i), 0, passing(stored(i, first)), 1);
  });
  pack.launch();
  fill_for_all(cut, rank, 1, packed, sends, receives);
  rank_link().exchange(sends, receives);
  cut.for_each([&](size_t i, int64_t first) {
    unpack.add(stored(i, first), 0, output_of(launch, i), launch.factor(i));
  });
  unpack.launch();
}

int64_t all_gather_workspace(const Launch& launch) {
  OwnersCut cut{launch, stored_bytes};
  return cut.first(cut.world);
}

bool each_in_place(size_t input, size_t output) { return input == output; }

constexpr Kernel kKernels[] = {
    {&all_reduce_op, run_all_reduce, all_reduce_workspace, each_in_place},
    {&reduce_scatter_op, run_reduce_scatter, reduce_scatter_workspace, each_in_place},
    {&all_gather_op, run_all_gather, all_gather_workspace, each_in_place}};

__global__ void find_largest(uint32_t* words, const uint32_t* of_ranks, int count, int world) {
  for (auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count;
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    uint32_t largest = 0;
    for (int r = 0; r < world; ++r) largest = max(largest, of_ranks[r * count + i]);
    words[i] = largest;
  }
}

}  // namespace

std::span<const Kernel> collective_kernels() { return kKernels; }

void share_largest(std::span<uint32_t> words, std::span<std::byte> room) {
  auto bytes = static_cast<int64_t>(words.size_bytes());
  auto* own = reinterpret_cast<std::byte*>(words.data());
  auto count = static_cast<int>(words.size());
  std::vector<Piece> sends(static_cast<size_t>(ranks().size()), Piece{own, bytes}), receives;
  for (int r = 0; r < ranks().size(); ++r) receives.push_back({room.data() + r * bytes, bytes});
  rank_link().exchange(sends, receives);
  find_largest<<<blocks_for(count), kThreads, 0, stream()>>>(
      words.data(), reinterpret_cast<const uint32_t*>(room.data()), count, ranks().size());
  check(cudaGetLastError(), "the largest of all ranks");
}

}  // namespace sigma1::cuda
