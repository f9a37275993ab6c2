// Where tensors lie and kernels run. A program is the same list of kernel calls on any device; only
// memory, and how a chain of pointwise ops becomes one call, differ.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sigma1/analysis/node_groups.h"
#include "sigma1/backend/kernel.h"
#include "sigma1/numerics/tensor_stats.h"

namespace sigma1 {

// One op of a chain of pointwise ops.
struct ChainStep {
  const OpDef* op = nullptr;
  Launch launch;  // outputs of inner steps have no memory
  // For each input: the earlier step that computes it, or −1 when it is loaded.
  std::vector<int> producer;
};

// Several nodes as one call.
class Chain {
 public:
  virtual ~Chain() = default;
  virtual void run(uint64_t step) = 0;
  // As of a kernel.
  virtual bool turns() const { return false; }
  // Bytes that a run needs and nobody else does until it is done, and where they are.
  virtual int64_t workspace() const { return 0; }
  virtual void set_workspace(std::byte*) {}
};

// Work that is done again and again: the same kernels on the same memory, told to a GPU once.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void run() = 0;
};

// A copy to this process that was asked for and may not have arrived.
class Readout {
 public:
  virtual ~Readout() = default;
  virtual void wait(void* to) = 0;
};

// What tensors' numbers are like. Many are looked at, one after another as a program computes them,
// before any is told of: a GPU goes on meanwhile.
class TensorMeter {
 public:
  virtual ~TensorMeter() = default;
  // As it is when the kernels before are done. `fit_to`: its numbers are first scaled so that the
  // largest is that large; 0: not at all.
  virtual void look_at(const Buffer& buffer, const FormatLimits& limits, float fit_to) = 0;
  // Of all that were looked at since the last call, in their order.
  virtual std::vector<TensorFindings> take() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string name() const = 0;  // "cpu", "cuda:0"

  // Zeros, aligned for any vector instruction. Throws Error when there is not as much.
  virtual std::byte* allocate(int64_t bytes) const = 0;
  virtual void release(std::byte* memory) const noexcept = 0;
  // In the order of the kernels that were run; both return when the process's side is done with.
  // A write may be under way then.
  virtual void write(std::byte* to, const void* from, int64_t bytes) const = 0;
  virtual void read(void* to, const std::byte* from, int64_t bytes) const = 0;

  // Throws Bug when there is none: every op of the catalogue has one.
  virtual const Kernel& find_kernel(const OpDef& op) const = 0;
  // What of a graph runs together here.
  virtual Grouping grouping(const Graph& graph) const = 0;
  virtual std::unique_ptr<Chain> make_chain(NodeGroup::Kind kind,
                                            std::vector<ChainStep> steps) const = 0;

  // Whether the product at `node` reads this input the other way round than it is stored, so that
  // it should be kept in both orientations.
  virtual bool reads_turned(const Graph& graph, int node, size_t input) const;
  // Whether the kernel of a node takes an input, or gives an output, that is a part of another
  // tensor's rows (Buffer::pitch).
  virtual bool takes_parts(const Graph& graph, int node, size_t input) const;
  virtual bool gives_parts(const Graph& graph, int node, size_t output) const;
  // Why a product, a node of a forward graph, and its gradients are no faster from numbers of 8
  // bits than of 16; empty where they are, or where nobody knows.
  virtual std::string why_not_8_bits(const Graph& graph, int node) const;
  // Whether the gradient of attention at `node` is faster from what forward keeps for it
  // (passes/lowering.h) than from its inputs alone.
  virtual bool keeps_attention(const Graph& graph, int node) const;
  // Writes a buffer's turned half.
  virtual void turn(const Buffer& buffer) const;
  virtual std::unique_ptr<TensorMeter> make_meter() const = 0;

  // `work` may run kernels, when_finite, and what is below between ranks, only.
  virtual std::unique_ptr<Recording> record(std::function<void()> work) const = 0;
  // Runs `body`, where there is one, if all these numbers are finite and *bad_step is 0; if a
  // number is not, sets *bad_step to *step + 1. Both lie in the device's memory. No collectives in
  // `body`.
  virtual void when_finite(std::span<const Buffer> numbers, const uint64_t* step,
                           uint64_t* bad_step, const std::function<void()>& body) const = 0;
  // As they are when the kernels before are done; little enough for a step's results.
  virtual std::unique_ptr<Readout> read_later(
      std::vector<std::span<const std::byte>> from) const = 0;

  // Runs collectives after the kernels so far and, where the device can, beside those that come
  // until the next join; else at once.
  virtual void beside(const std::function<void()>& collectives) const;
  virtual void join() const;
  // Every word becomes the largest that any rank has, which is right for counts and for floats that
  // are not negative. `room` is for the words of every rank.
  virtual void share_largest(std::span<uint32_t> words, std::span<std::byte> room) const;
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
