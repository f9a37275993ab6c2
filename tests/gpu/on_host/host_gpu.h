// Runs kernels on the CPU: a fiber for each of the GPU's threads, a cluster of blocks after the
// other. What lanes of a warp do together they do together here, shared memory begins as NaN and is
// NaN where something is on its way, and whoever leaves its bounds by an address ends the program.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <new>
#include <type_traits>
#include <vector>

#include "host_fibers.h"

#undef __launch_bounds__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __noinline__

namespace host_gpu {

struct Index {
  unsigned x = 0;
};

struct Warp {
  static constexpr size_t kBytes = 64;  // that a lane gives
  Meeting meeting;
  alignas(16) std::byte given[2][32][kBytes];  // at every other meeting
};

struct Block {
  std::vector<std::byte> memory;
  std::vector<std::unique_ptr<Warp>> warps;
  std::array<Meeting, 16> meetings;  // by number: the first is __syncthreads'

  Block(int threads, int bytes) : memory(static_cast<size_t>(bytes), std::byte{0xFF}) {
    for (int i = 0; i < threads / 32; ++i) warps.push_back(std::make_unique<Warp>());
  }
};

// An address is a block's rank and a place in its memory.
constexpr int kRankShift = 24;
constexpr uint32_t kPlaces = (1U << kRankShift) - 1;

struct Cluster {
  int threads;
  std::vector<std::unique_ptr<Block>> blocks;
  Meeting meeting;
  List<Fiber> sleepers;  // at barriers in shared memory

  Cluster(int ranks, int threads_of_block, int bytes) : threads(ranks * threads_of_block) {
    for (int i = 0; i < ranks; ++i)
      blocks.push_back(std::make_unique<Block>(threads_of_block, bytes));
  }

  std::byte* at(uint32_t address, size_t bytes) {
    std::vector<std::byte>& memory = blocks.at(address >> kRankShift)->memory;
    size_t place = address & kPlaces;
    if (place + bytes > memory.size() || place % bytes != 0) {
      std::fprintf(stderr, "%zu bytes at %zu of shared memory, which has %zu\n", bytes, place,
                   memory.size());
      std::abort();
    }
    return memory.data() + place;
  }
};

// 16 bytes on their way from memory.
struct Copy {
  uint32_t to;
  const void* from;
  bool inside;
};

struct Thread {
  Index thread_index, block_index;
  int rank = 0;
  int arrival = 0;            // at the meeting of the cluster
  bool reads_others = false;  // and nothing since has waited for what it read
  std::vector<Copy> copies;
  std::deque<std::vector<Copy>> groups;  // of copies that can be waited for
};

inline Cluster* cluster = nullptr;
inline std::vector<Thread> threads;
inline Index threads_of_block, blocks_of_grid;

inline Thread& self() { return threads[static_cast<size_t>(fibers.number())]; }
inline int lane() { return static_cast<int>(self().thread_index.x) % 32; }
inline Block& block() { return *cluster->blocks[static_cast<size_t>(self().rank)]; }
inline uint32_t own(uint32_t place) {
  return static_cast<uint32_t>(self().rank) << kRankShift | place;
}

// Every lane gives something; gives take(what each lane gave).
template <class Given, class Take>
auto meet_lanes(const Given& given, Take take) {
  static_assert(sizeof(Given) <= Warp::kBytes);
  Warp& warp = *block().warps[self().thread_index.x / 32];
  auto& now = warp.given[warp.meeting.meetings() % 2];
  new (now[lane()]) Given(given);
  warp.meeting.arrive_and_wait(32);
  return take([&](uint32_t of) -> const Given& {
    return *std::launder(reinterpret_cast<const Given*>(now[of]));
  });
}

template <class Number>
Number load(uint32_t address) {
  Number number;
  std::memcpy(&number, cluster->at(address, sizeof(Number)), sizeof(Number));
  return number;
}
template <class Number>
void store(uint32_t address, Number number) {
  std::memcpy(cluster->at(address, sizeof(Number)), &number, sizeof(Number));
}

// A barrier in shared memory: a phase is over when all have arrived and all bytes have come. Who
// arrives tells others what it has done, but is told nothing.
struct Transactions {
  int32_t bytes = 0;
  uint8_t expected = 0, missing = 0, phase = 0, unused = 0;
};
static_assert(sizeof(Transactions) == sizeof(uint64_t));

inline std::atomic_ref<uint64_t> barrier_at(uint32_t address) {
  return std::atomic_ref(*reinterpret_cast<uint64_t*>(cluster->at(address, sizeof(uint64_t))));
}
inline void start(uint32_t barrier, int arrivals) {
  auto missing = static_cast<uint8_t>(arrivals);
  barrier_at(barrier).store(std::bit_cast<uint64_t>(Transactions{0, missing, missing}),
                            std::memory_order_release);
}
inline void arrive(uint32_t barrier, int arrivals, int bytes) {
  auto at = barrier_at(barrier);
  uint64_t before = at.load(std::memory_order_relaxed);
  Transactions next{};
  bool is_over = false;
  do {
    next = std::bit_cast<Transactions>(before);
    next.missing = static_cast<uint8_t>(next.missing - arrivals);
    next.bytes += bytes;
    is_over = next.missing == 0 && next.bytes == 0;
    if (is_over) next.missing = next.expected, ++next.phase;
  } while (!at.compare_exchange_weak(before, std::bit_cast<uint64_t>(next),
                                     std::memory_order_release, std::memory_order_relaxed));
  if (is_over) fibers.wake(cluster->sleepers);
}
inline void wait(uint32_t barrier, int parity) {
  auto at = barrier_at(barrier);
  while (std::bit_cast<Transactions>(at.load(std::memory_order_acquire)).phase % 2 == parity) {
    fibers.sleep(cluster->sleepers);
  }
}

// Not by memset, which the sanitizer does not see when it is compiled into stores.
inline void forget(uint32_t to, int bytes) {
  const uint4 no_numbers{~0U, ~0U, ~0U, ~0U};
  for (uint32_t i = 0; i < static_cast<uint32_t>(bytes); i += 16) store(to + i, no_numbers);
}
// Bytes that `bring` brings while threads go on, of which the barrier is told.
template <class Bring>
void bring_late(uint32_t to, int bytes, uint32_t barrier, Bring bring) {
  forget(to, bytes);
  fibers.do_late([=] {
    bring();
    arrive(barrier, 0, -bytes);
  });
}
// Of a thread's groups all but the last ones.
inline void bring_groups(size_t left) {
  for (auto& groups = self().groups; groups.size() > left; groups.pop_front()) {
    for (const Copy& each : groups.front()) {
      uint4 bytes{};
      if (each.inside) std::memcpy(&bytes, each.from, sizeof(bytes));
      store(each.to, bytes);
    }
  }
}

// Calls kernel() for every thread of a grid.
template <class Kernel>
void run(Kernel kernel, int blocks, int threads_of_one, int ranks, int bytes) {
  threads_of_block.x = static_cast<unsigned>(threads_of_one);
  blocks_of_grid.x = static_cast<unsigned>(blocks);
  for (int first = 0; first < blocks; first += ranks) {
    Cluster all(ranks, threads_of_one, bytes);
    cluster = &all;
    threads.assign(static_cast<size_t>(ranks * threads_of_one), {});
    for (int i = 0; i < all.threads; ++i) {
      Thread& thread = threads[static_cast<size_t>(i)];
      thread.rank = i / threads_of_one;
      thread.thread_index.x = static_cast<unsigned>(i % threads_of_one);
      thread.block_index.x = static_cast<unsigned>(first + thread.rank);
    }
    fibers.run(all.threads, [&](int) { kernel(); });
  }
}

}  // namespace host_gpu

#define threadIdx host_gpu::self().thread_index
#define blockIdx host_gpu::self().block_index
#define blockDim host_gpu::threads_of_block
#define gridDim host_gpu::blocks_of_grid

inline void __syncthreads() {
  host_gpu::self().reads_others = false;
  host_gpu::block().meetings[0].arrive_and_wait(static_cast<int>(blockDim.x));
}
inline void __syncwarp() {
  host_gpu::meet_lanes(0, [](auto) { return 0; });
}
inline float __shfl_xor_sync(unsigned, float value, int distance) {
  return host_gpu::meet_lanes(value, [&](auto of) { return of(host_gpu::lane() ^ distance); });
}
template <class Number>
void __stcg(Number* to, Number number) {
  std::memcpy(to, &number, sizeof(number));
}
inline uint32_t __float_as_uint(float number) { return std::bit_cast<uint32_t>(number); }
inline float __uint_as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
