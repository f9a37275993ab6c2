// Runs kernels on the CPU: a thread for each of the GPU's, a cluster of blocks after the other.
// What lanes of a warp do together they do together here, shared memory begins as NaN, and whoever
// leaves its bounds by an address ends the program. Nothing orders threads but what they ask for,
// so that the thread sanitizer sees who does not wait.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <climits>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#undef __launch_bounds__
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __noinline__

namespace host_gpu {

struct Index {
  unsigned x = 0;
};
inline thread_local Index thread_index, block_index, threads_of_block, blocks_of_grid;

// A barrier that shares nothing with others: those of the standard library do, and a thread
// sanitizer would take whoever has passed one to know what was done before another.
class Meeting {
 public:
  // One of so many.
  int arrive(int threads) {
    std::lock_guard lock(mutex_);
    int own = meetings_;
    if (++arrived_ < threads) return own;
    arrived_ = 0;
    ++meetings_;
    all_there_.notify_all();
    return own;
  }
  void wait(int own) {
    std::unique_lock lock(mutex_);
    all_there_.wait(lock, [&] { return meetings_ != own; });
  }
  void arrive_and_wait(int threads) { wait(arrive(threads)); }

 private:
  int arrived_ = 0, meetings_ = 0;
  std::mutex mutex_;
  std::condition_variable all_there_;
};

struct Warp {
  static constexpr size_t kBytes = 64;  // that a lane gives
  Meeting meeting;
  alignas(16) std::byte given[32][kBytes];
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

inline thread_local Cluster* cluster = nullptr;
inline thread_local int rank = 0;
inline thread_local int arrival = 0;  // at the meeting of the cluster

inline int lane() { return static_cast<int>(thread_index.x) % 32; }
inline Block& block() { return *cluster->blocks[static_cast<size_t>(rank)]; }
inline uint32_t own(uint32_t place) { return static_cast<uint32_t>(rank) << kRankShift | place; }

// Every lane gives something; gives take(what each lane gave).
template <class Given, class Take>
auto meet_lanes(const Given& given, Take take) {
  static_assert(sizeof(Given) <= Warp::kBytes);
  Warp& warp = *block().warps[thread_index.x / 32];
  std::memcpy(warp.given[lane()], &given, sizeof(Given));
  warp.meeting.arrive_and_wait(32);
  auto result = take([&](int of) {
    Given got;
    std::memcpy(&got, warp.given[of], sizeof(Given));
    return got;
  });
  warp.meeting.arrive_and_wait(32);
  return result;
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
// Those who wait sleep until a number changes, which orders nothing.
inline uint32_t* sleepers_at(uint32_t barrier) {
  return reinterpret_cast<uint32_t*>(cluster->at(barrier, sizeof(uint64_t))) + 1;
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
  if (is_over) syscall(SYS_futex, sleepers_at(barrier), FUTEX_WAKE_PRIVATE, INT_MAX);
}
inline void wait(uint32_t barrier, int parity) {
  auto at = barrier_at(barrier);
  uint64_t seen = at.load(std::memory_order_acquire);
  for (; std::bit_cast<Transactions>(seen).phase % 2 == parity;
       seen = at.load(std::memory_order_acquire)) {
    auto number = static_cast<uint32_t>(seen >> 32);
    syscall(SYS_futex, sleepers_at(barrier), FUTEX_WAIT_PRIVATE, number, nullptr);
  }
}

// Calls kernel() for every thread of a grid.
template <class Kernel>
void run(Kernel kernel, int blocks, int threads, int ranks, int bytes) {
  for (int first = 0; first < blocks; first += ranks) {
    Cluster all(ranks, threads, bytes);
    std::vector<std::thread> running;
    for (int i = 0; i < ranks * threads; ++i) {
      running.emplace_back([&, i] {
        cluster = &all;
        rank = i / threads;
        thread_index.x = static_cast<unsigned>(i % threads);
        block_index.x = static_cast<unsigned>(first + rank);
        threads_of_block.x = static_cast<unsigned>(threads);
        blocks_of_grid.x = static_cast<unsigned>(blocks);
        kernel();
      });
    }
    for (std::thread& each : running) each.join();
  }
}

}  // namespace host_gpu

#define threadIdx host_gpu::thread_index
#define blockIdx host_gpu::block_index
#define blockDim host_gpu::threads_of_block
#define gridDim host_gpu::blocks_of_grid

inline void __syncthreads() {
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
