// The order in which a thread's work is done on the GPU, and small copies to and from it that do
// not make the thread wait: they go through memory that both sides see, many pieces in one kernel.
#pragma once

#include <vector>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/device.h"

namespace sigma1::cuda {

// Bytes to be copied by one kernel, each piece from and to a multiple of 16.
struct Pieces {
  struct Piece {
    std::byte* to;
    const std::byte* from;
    int64_t bytes;
  };
  static constexpr int kMost = 16;
  Piece at[kMost];
  int count = 0;
};

// Each thread has a stream of its own, so that several runs can share a GPU.
class Stream {
 public:
  static Stream& of_thread();
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t handle() const { return current_; }
  // What was written and is still on its way goes before any kernel that is launched later.
  void write(std::byte* to, const void* from, int64_t bytes);
  void flush();
  void wait();
  // Drops writes that begin in what is about to be freed.
  void forget(const std::byte* memory) noexcept;

  // Runs `body` while kernels go to `other`.
  template <class Body>
  void with(cudaStream_t other, Body body) {
    cudaStream_t before = current_;
    current_ = other;
    body();
    current_ = before;
  }

 private:
  friend class CudaReadout;
  // Where results of the GPU arrive, and when they are there.
  struct Arrival {
    std::byte* memory = nullptr;
    cudaEvent_t there = nullptr;
  };
  static constexpr int64_t kArrivalBytes = 64;

  void send(const Pieces& pieces);
  Arrival take_arrival();
  std::byte* take_room(int64_t bytes);

  static constexpr int kParts = 4;
  static constexpr int64_t kPartBytes = int64_t{1} << 20;
  cudaStream_t own_ = nullptr, current_ = nullptr;
  std::byte* room_ = nullptr;  // kParts · kPartBytes, written in turns
  cudaEvent_t copied_[kParts] = {};
  int part_ = 0;
  int64_t used_ = 0;
  Pieces pending_;
  std::vector<Arrival> arrivals_;  // nobody waits for
};

// Throws Bug when there are more than kArrivalBytes.
class CudaReadout : public Readout {
 public:
  explicit CudaReadout(const std::vector<std::span<const std::byte>>& from);
  ~CudaReadout() override;
  void wait(void* to) override;

 private:
  Stream& stream_;
  Stream::Arrival arrival_;
  Pieces pieces_;
};

}  // namespace sigma1::cuda
