// A device that is the CPU, for tests of what the library makes of others' answers.
#pragma once

#include "sigma1/backend/device.h"

namespace sigma1 {

class CpuLike : public Device {
 public:
  std::string name() const override { return "fake"; }
  std::byte* allocate(int64_t bytes) const override { return cpu_device().allocate(bytes); }
  void release(std::byte* memory) const noexcept override { cpu_device().release(memory); }
  void write(std::byte* to, const void* from, int64_t bytes) const override {
    cpu_device().write(to, from, bytes);
  }
  void read(void* to, const std::byte* from, int64_t bytes) const override {
    cpu_device().read(to, from, bytes);
  }
  const Kernel& find_kernel(const OpDef& op) const override { return cpu_device().find_kernel(op); }
  Grouping grouping(const Graph& graph) const override { return cpu_device().grouping(graph); }
  std::unique_ptr<Chain> make_chain(NodeGroup::Kind kind,
                                    std::vector<ChainStep> steps) const override {
    return cpu_device().make_chain(kind, std::move(steps));
  }
  std::unique_ptr<TensorMeter> make_meter() const override { return cpu_device().make_meter(); }
  std::unique_ptr<Recording> record(std::function<void()> work) const override {
    return cpu_device().record(std::move(work));
  }
  void when_finite(std::span<const Buffer> numbers, const uint64_t* step, uint64_t* bad_step,
                   const std::function<void()>& body) const override {
    cpu_device().when_finite(numbers, step, bad_step, body);
  }
  std::unique_ptr<Readout> read_later(std::vector<std::span<const std::byte>> from) const override {
    return cpu_device().read_later(std::move(from));
  }
};

}  // namespace sigma1
