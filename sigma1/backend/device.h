// Where tensors lie and kernels run. A program is the same list of kernel calls on any device; only
// memory, and how a chain of pointwise ops becomes one call, differ.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sigma1/backend/kernel.h"

namespace sigma1 {

// One op of a chain of pointwise ops.
struct ChainStep {
  const OpDef* op = nullptr;
  Launch launch;  // outputs of inner steps have no memory
  // For each input: the earlier step that computes it, or −1 when it is loaded.
  std::vector<int> producer;
};

// A chain made ready: what passes between its ops is never rounded or stored.
class Chain {
 public:
  virtual ~Chain() = default;
  virtual void run(uint64_t step) = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // "cpu", "cuda:0"

  // Zeros, aligned for any vector instruction. Throws Error when there is not as much.
  virtual std::byte* allocate(int64_t bytes) const = 0;
  virtual void release(std::byte* memory) const noexcept = 0;
  // In the order of the kernels that were run; both return when the process's side is done with.
  virtual void write(std::byte* to, const void* from, int64_t bytes) const = 0;
  virtual void read(void* to, const std::byte* from, int64_t bytes) const = 0;

  // Throws Bug when there is none: every op of the catalogue has one.
  virtual const Kernel& find_kernel(const OpDef& op) const = 0;
  virtual bool is_pointwise(const OpDef& op) const = 0;
  virtual std::unique_ptr<Chain> make_chain(std::vector<ChainStep> steps) const = 0;

  // Whether all numbers of these real buffers are.
  virtual bool are_finite(std::span<const Buffer> buffers) const = 0;
};

const Device& cpu_device();

// Memory of a device.
class DeviceBytes {
 public:
  DeviceBytes(const Device& device, int64_t size);
  std::byte* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  struct Release {
    const Device* device;
    void operator()(std::byte* memory) const { device->release(memory); }
  };
  std::unique_ptr<std::byte, Release> data_;
  int64_t size_;
};

}  // namespace sigma1
