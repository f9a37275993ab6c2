// A step as a CUDA graph: what is launched is told to the GPU once and repeated from there. Where
// the host has a part in it, that lies between two graphs.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/device.h"

namespace sigma1::cuda {

// Done as it is the first time, when libraries load what they need; recorded the second.
class CudaRecording : public Recording {
 public:
  explicit CudaRecording(std::function<void()> work) : work_(std::move(work)) {}
  void run() override;

 private:
  friend void between_graphs(std::function<void()> host_work);
  struct Destroy {
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  };
  struct Part {
    std::unique_ptr<CUgraphExec_st, Destroy> graph;
    std::function<void()> host_work;  // after it; may be empty
  };

  void record();
  void begin() const;
  void end(std::function<void()> host_work);

  std::function<void()> work_;
  bool ran_ = false;
  std::vector<Part> parts_;
};

// Runs what no graph can hold: now or, while this thread makes a recording, whenever that is run.
// Not within when_finite, nor on another stream than the recording's.
void between_graphs(std::function<void()> host_work);

// Device::when_finite.
void when_finite(std::span<const Buffer> numbers, const uint64_t* step, uint64_t* bad_step,
                 const std::function<void()>& body);

}  // namespace sigma1::cuda
