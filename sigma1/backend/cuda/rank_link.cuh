// How bytes get from one rank's GPU to another's: by NCCL where each rank has a GPU of its own,
// else through the host's memory and the Communicator. Both only move bytes, so that results have
// the same bits either way.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "sigma1/base/communicator.h"

namespace sigma1::cuda {

class RankLink {
 public:
  using Piece = Communicator::Piece;
  virtual ~RankLink() = default;

  // As Communicator::exchange, of the GPU's memory and in the order of the stream.
  virtual void exchange(const std::vector<Piece>& sends, const std::vector<Piece>& receives) = 0;
  // Whether the GPU does it all, so that it can be beside other work and within a graph.
  virtual bool needs_no_host() const = 0;
};

// The one of this thread's ranks and GPU. Made by the first call, in all ranks at once.
RankLink& rank_link();

// Null in a build without NCCL. Throws Error in one line where it does not start.
std::unique_ptr<RankLink> connect_nccl();

// Device::beside and join, on a stream of its own where the link needs no host.
void beside(const std::function<void()>& collectives);
void join();

}  // namespace sigma1::cuda
