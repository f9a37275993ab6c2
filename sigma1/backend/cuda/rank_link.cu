#include "sigma1/backend/cuda/rank_link.cuh"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "sigma1/backend/cuda/recording.cuh"
#include "sigma1/backend/cuda/stream.cuh"

namespace sigma1::cuda {
namespace {

using Piece = Communicator::Piece;

// Memory that the GPU copies from and to without help.
class PinnedBytes {
 public:
  PinnedBytes() = default;
  ~PinnedBytes() { cudaFreeHost(data_); }
  PinnedBytes(const PinnedBytes&) = delete;
  PinnedBytes& operator=(const PinnedBytes&) = delete;

  // What was there is lost where more is needed.
  std::byte* take(int64_t bytes) {
    if (bytes <= size_) return data_;
    check(cudaFreeHost(data_), "giving memory back");
    data_ = nullptr;
    size_ = 0;
    void* memory = nullptr;
    check(cudaMallocHost(&memory, static_cast<size_t>(bytes)), "memory for other ranks");
    data_ = static_cast<std::byte*>(memory);
    size_ = bytes;
    return data_;
  }

 private:
  std::byte* data_ = nullptr;
  int64_t size_ = 0;
};

// Pieces of the GPU's memory side by side in the host's; what is sent to several ranks is there
// once.
std::vector<Piece> on_host(const std::vector<Piece>& pieces, PinnedBytes& memory) {
  std::map<std::byte*, int64_t> places;
  int64_t total = 0;
  for (const Piece& each : pieces) {
    if (each.bytes > 0 && places.try_emplace(each.data, total).second) total += each.bytes;
  }
  std::byte* first = memory.take(total);
  std::vector<Piece> found;
  for (const Piece& each : pieces) {
    found.push_back({each.bytes > 0 ? first + places.at(each.data) : nullptr, each.bytes});
  }
  return found;
}

class HostLink : public RankLink {
 public:
  bool needs_no_host() const override { return false; }

  void exchange(const std::vector<Piece>& sends, const std::vector<Piece>& receives) override {
    std::vector<Piece> from = sends, to = receives;
    auto own = static_cast<size_t>(ranks().rank());
    if (from[own].data == to[own].data) from[own] = to[own] = {};
    between_graphs([this, from, to] { carry(from, to); });
  }

 private:
  void carry(const std::vector<Piece>& sends, const std::vector<Piece>& receives) {
    std::vector<Piece> from = on_host(sends, sent_), to = on_host(receives, received_);
    std::set<const std::byte*> copied;
    for (size_t r = 0; r < sends.size(); ++r) {
      if (sends[r].bytes > 0 && copied.insert(sends[r].data).second) copy(from[r].data, sends[r]);
    }
    Stream::of_thread().wait();
    ranks().exchange(from, to);
    for (size_t r = 0; r < receives.size(); ++r) {
      if (receives[r].bytes > 0) copy(receives[r].data, to[r]);
    }
  }

  static void copy(std::byte* to, const Piece& from) {
    check(cudaMemcpyAsync(to, from.data, static_cast<size_t>(from.bytes), cudaMemcpyDefault,
                          stream()),
          "copying for other ranks");
  }

  PinnedBytes sent_, received_;
};

int current_gpu() {
  int index = 0;
  check(cudaGetDevice(&index), "asking for the GPU");
  return index;
}

// NCCL wants a GPU for each rank.
bool has_own_gpus() {
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, current_gpu()), "asking for the GPU");
  std::vector<std::string> all =
      gather_texts(ranks(), std::string(properties.uuid.bytes, sizeof(properties.uuid.bytes)));
  return std::set<std::string>(all.begin(), all.end()).size() == all.size();
}

std::unique_ptr<RankLink> connect() {
  std::unique_ptr<RankLink> nccl = has_own_gpus() ? connect_nccl() : nullptr;
  return nccl ? std::move(nccl) : std::make_unique<HostLink>();
}

// Before other work, as that has to wait for it in the end.
struct SideStream {
  cudaStream_t stream = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  bool under_way = false;

  SideStream() {
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
          "making a stream");
    for (cudaEvent_t* each : {&begin, &end}) {
      check(cudaEventCreateWithFlags(each, cudaEventDisableTiming), "making an event");
    }
  }
  ~SideStream() {
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    cudaStreamDestroy(stream);
  }
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;
};

SideStream& side_of_thread() {
  thread_local SideStream side;
  return side;
}

}  // namespace

RankLink& rank_link() {
  using Key = std::pair<const Communicator*, int>;
  thread_local Key of;
  thread_local std::unique_ptr<RankLink> link;
  Key wanted{&ranks(), current_gpu()};
  if (!link || of != wanted) {
    link = connect();
    of = wanted;
  }
  return *link;
}

void beside(const std::function<void()>& collectives) {
  if (!rank_link().needs_no_host()) return collectives();
  SideStream& side = side_of_thread();
  check(cudaEventRecord(side.begin, stream()), "beginning beside");
  check(cudaStreamWaitEvent(side.stream, side.begin), "beginning beside");
  Stream::of_thread().with(side.stream, collectives);
  check(cudaEventRecord(side.end, side.stream), "ending beside");
  side.under_way = true;
}

void join() {
  SideStream& side = side_of_thread();
  if (!side.under_way) return;
  check(cudaStreamWaitEvent(stream(), side.end), "waiting for collectives");
  side.under_way = false;
}

}  // namespace sigma1::cuda
