#include "sigma1/backend/cuda/stream.cuh"

#include <cstring>

#include "sigma1/base/error.h"

namespace sigma1::cuda {

namespace {

// A block a piece.
__global__ void copy_pieces(const __grid_constant__ Pieces pieces) {
  const Pieces::Piece& piece = pieces.at[blockIdx.x];
  int64_t wide = piece.bytes / 16;
  for (int64_t i = threadIdx.x; i < wide; i += blockDim.x) {
    reinterpret_cast<int4*>(piece.to)[i] = reinterpret_cast<const int4*>(piece.from)[i];
  }
  for (int64_t i = 16 * wide + threadIdx.x; i < piece.bytes; i += blockDim.x) {
    piece.to[i] = piece.from[i];
  }
}

bool overlap(const Pieces& pieces, const std::byte* to, int64_t bytes) {
  for (int i = 0; i < pieces.count; ++i) {
    const Pieces::Piece& each = pieces.at[i];
    if (to < each.to + each.bytes && each.to < to + bytes) return true;
  }
  return false;
}

}  // namespace

Stream& Stream::of_thread() {
  thread_local Stream stream;
  return stream;
}

Stream::Stream() {
  check(cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking), "making a stream");
  current_ = own_;
  void* room = nullptr;
  check(cudaHostAlloc(&room, kParts * kPartBytes, cudaHostAllocMapped), "memory for copies");
  room_ = static_cast<std::byte*>(room);
  for (cudaEvent_t& each : copied_) {
    check(cudaEventCreateWithFlags(&each, cudaEventDisableTiming), "making an event");
  }
}

Stream::~Stream() {
  for (cudaEvent_t each : copied_) cudaEventDestroy(each);
  for (const Arrival& each : arrivals_) {
    cudaEventDestroy(each.there);
    cudaFreeHost(each.memory);
  }
  cudaFreeHost(room_);
  cudaStreamDestroy(own_);
}

void Stream::write(std::byte* to, const void* from, int64_t bytes) {
  bool is_small = bytes <= kPartBytes / 4 && reinterpret_cast<uintptr_t>(to) % 16 == 0;
  if (!is_small) {
    flush();
    check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, current_),
          "copying");
    return wait();
  }
  bool is_full = pending_.count == Pieces::kMost;
  if (is_full || overlap(pending_, to, bytes)) flush();  // pieces have no order
  std::byte* room = take_room(bytes);
  std::memcpy(room, from, static_cast<size_t>(bytes));
  pending_.at[pending_.count++] = {to, room, bytes};
}

std::byte* Stream::take_room(int64_t bytes) {
  int64_t rounded = (bytes + 15) / 16 * 16;
  if (used_ + rounded > kPartBytes) {
    flush();
    check(cudaEventRecord(copied_[part_], current_), "copying");
    part_ = (part_ + 1) % kParts;
    check(cudaEventSynchronize(copied_[part_]), "waiting for a copy");
    used_ = 0;
  }
  std::byte* room = room_ + part_ * kPartBytes + used_;
  used_ += rounded;
  return room;
}

void Stream::flush() {
  if (pending_.count == 0) return;
  send(pending_);
  pending_.count = 0;
}

// A tensor is allocated by itself, and written from its beginning.
void Stream::forget(const std::byte* memory) noexcept {
  int kept = 0;
  for (int i = 0; i < pending_.count; ++i) {
    if (pending_.at[i].to != memory) pending_.at[kept++] = pending_.at[i];
  }
  pending_.count = kept;
}

void Stream::send(const Pieces& pieces) {
  copy_pieces<<<pieces.count, kThreads, 0, current_>>>(pieces);
  check(cudaGetLastError(), "copying");
}

Stream::Arrival Stream::take_arrival() {
  if (!arrivals_.empty()) {
    Arrival taken = arrivals_.back();
    arrivals_.pop_back();
    return taken;
  }
  Arrival made;
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, kArrivalBytes, cudaHostAllocMapped), "memory for results");
  made.memory = static_cast<std::byte*>(memory);
  check(cudaEventCreateWithFlags(&made.there, cudaEventDisableTiming), "making an event");
  return made;
}

void Stream::wait() { check(cudaStreamSynchronize(current_), "waiting for the GPU"); }

CudaReadout::CudaReadout(const std::vector<std::span<const std::byte>>& from)
    : stream_(Stream::of_thread()), arrival_(stream_.take_arrival()) {
  int64_t used = 0;
  for (std::span<const std::byte> each : from) {
    auto bytes = static_cast<int64_t>(each.size());
    if (used + bytes > Stream::kArrivalBytes || pieces_.count == Pieces::kMost) {
      throw Bug("cuda: {} bytes at least are too many for a readout", used + bytes);
    }
    pieces_.at[pieces_.count++] = {arrival_.memory + used, each.data(), bytes};
    used += (bytes + 15) / 16 * 16;
  }
  stream_.flush();
  stream_.send(pieces_);
  check(cudaEventRecord(arrival_.there, stream_.handle()), "asking for results");
}

CudaReadout::~CudaReadout() {
  cudaEventSynchronize(arrival_.there);
  stream_.arrivals_.push_back(arrival_);
}

void CudaReadout::wait(void* to) {
  check(cudaEventSynchronize(arrival_.there), "waiting for results");
  auto* next = static_cast<std::byte*>(to);
  for (int i = 0; i < pieces_.count; ++i) {
    std::memcpy(next, pieces_.at[i].to, static_cast<size_t>(pieces_.at[i].bytes));
    next += pieces_.at[i].bytes;
  }
}

cudaStream_t stream() {
  Stream& own = Stream::of_thread();
  own.flush();
  return own.handle();
}

}  // namespace sigma1::cuda
