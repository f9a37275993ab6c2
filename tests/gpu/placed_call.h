// A kernel's call with memory of its own on the GPU, to be run again and again, or recorded.
#pragma once

#include "tests/conformance/kernel_call.h"

namespace sigma1 {

class PlacedCall {
 public:
  // Both must outlive it. Without state a kernel may have to do without what needs it.
  PlacedCall(const KernelCall& call, const Attributes& attributes, bool with_state = true);
  PlacedCall(const PlacedCall&) = delete;  // the launch points into it
  PlacedCall& operator=(const PlacedCall&) = delete;

  void run() const { kernel_.run(launch_); }
  std::vector<std::vector<std::byte>> outputs() const;
  std::span<std::byte> workspace() const { return launch_.workspace; }

 private:
  Buffer placed(Buffer buffer);
  std::span<std::byte> add_memory(int64_t bytes);

  const Kernel& kernel_;
  std::vector<DeviceBytes> memory_;
  std::vector<Buffer> inputs_, outputs_;
  std::vector<float> factors_;
  std::vector<RandomStream> random_;
  Launch launch_;
};

}  // namespace sigma1
