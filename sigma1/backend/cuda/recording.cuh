// A step as one CUDA graph: what is launched is told to the GPU once and repeated from there.
#pragma once

#include <functional>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/device.h"

namespace sigma1::cuda {

// Done as it is the first time, when libraries load what they need; recorded the second.
class CudaRecording : public Recording {
 public:
  explicit CudaRecording(std::function<void()> work) : work_(std::move(work)) {}
  ~CudaRecording() override;
  void run() override;

 private:
  void record();

  std::function<void()> work_;
  bool ran_ = false;
  cudaGraphExec_t graph_ = nullptr;
};

// Device::when_finite.
void when_finite(std::span<const Buffer> numbers, const uint64_t* step, uint64_t* bad_step,
                 const std::function<void()>& body);

}  // namespace sigma1::cuda
