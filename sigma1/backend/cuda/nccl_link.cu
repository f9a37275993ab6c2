// Ranks that have a GPU each talk through NCCL: only its messages from one to another are used,
// sums are ours. They are part of the stream, and of a CUDA graph made from it.
#include <nccl.h>

#include <algorithm>
#include <cstring>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/cuda/rank_link.cuh"
#include "sigma1/backend/devices.h"
#include "sigma1/base/error.h"

namespace sigma1 {
namespace cuda {
namespace {

void check(ncclResult_t status, const char* what) {
  if (status == ncclSuccess) return;
  throw Error("nccl: {}: {}; NCCL_DEBUG=WARN in the environment tells more", what,
              ncclGetErrorString(status));
}

class NcclLink : public RankLink {
 public:
  NcclLink() {
    ncclUniqueId id{};
    if (ranks().rank() == 0) check(ncclGetUniqueId(&id), "starting");
    std::string sent = broadcast_text(ranks(), std::string(id.internal, sizeof(id.internal)));
    std::memcpy(id.internal, sent.data(), sizeof(id.internal));
    check(ncclCommInitRank(&all_, ranks().size(), id, ranks().rank()), "connecting GPUs");
  }
  ~NcclLink() override { ncclCommDestroy(all_); }
  NcclLink(const NcclLink&) = delete;
  NcclLink& operator=(const NcclLink&) = delete;

  bool needs_no_host() const override { return true; }

  void exchange(const std::vector<Piece>& sends, const std::vector<Piece>& receives) override {
    cudaStream_t on = stream();
    check(ncclGroupStart(), "an exchange");
    for (size_t r = 0; r < sends.size(); ++r) {
      auto peer = static_cast<int>(r);
      if (sends[r].data == receives[r].data && peer == ranks().rank()) continue;
      if (sends[r].bytes > 0) {
        check(
            ncclSend(sends[r].data, static_cast<size_t>(sends[r].bytes), ncclUint8, peer, all_, on),
            "sending");
      }
      if (receives[r].bytes > 0) {
        check(ncclRecv(receives[r].data, static_cast<size_t>(receives[r].bytes), ncclUint8, peer,
                       all_, on),
              "receiving");
      }
    }
    check(ncclGroupEnd(), "an exchange");
  }

 private:
  ncclComm_t all_ = nullptr;
};

}  // namespace

std::unique_ptr<RankLink> connect_nccl() { return std::make_unique<NcclLink>(); }

}  // namespace cuda

bool has_nccl() { return true; }

}  // namespace sigma1
