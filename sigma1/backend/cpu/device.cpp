#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "sigma1/backend/cpu/fused.h"
#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/tensor_meter.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/backend/device.h"
#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

class CpuChain : public Chain {
 public:
  explicit CpuChain(std::vector<ChainStep> steps) {
    for (ChainStep& each : steps) {
      steps_.push_back(
          {cpu::find_pointwise(*each.op)->tile, each.launch, std::move(each.producer)});
    }
  }

  void run(uint64_t step) override {
    for (cpu::FusedStep& each : steps_) each.launch.step = step;
    cpu::run_fused(steps_);
  }

 private:
  std::vector<cpu::FusedStep> steps_;
};

class CpuRecording : public Recording {
 public:
  explicit CpuRecording(std::function<void()> work) : work_(std::move(work)) {}
  void run() override { work_(); }

 private:
  std::function<void()> work_;
};

class CpuReadout : public Readout {
 public:
  explicit CpuReadout(const std::vector<std::span<const std::byte>>& from) {
    for (std::span<const std::byte> each : from) {
      bytes_.insert(bytes_.end(), each.begin(), each.end());
    }
  }
  void wait(void* to) override { std::memcpy(to, bytes_.data(), bytes_.size()); }

 private:
  std::vector<std::byte> bytes_;
};

class CpuDevice : public Device {
 public:
  std::string name() const override { return "cpu"; }

  std::byte* allocate(int64_t bytes) const override {
    constexpr int64_t kAlignment = 64;
    int64_t rounded = (std::max(bytes, int64_t{1}) + kAlignment - 1) / kAlignment * kAlignment;
    void* memory = std::aligned_alloc(kAlignment, static_cast<size_t>(rounded));
    if (memory == nullptr) {
      throw Error("memory: {} bytes were asked for and are not there", rounded);
    }
    std::memset(memory, 0, static_cast<size_t>(rounded));
    return static_cast<std::byte*>(memory);
  }

  void release(std::byte* memory) const noexcept override { std::free(memory); }

  // What is empty may have no address, which memcpy does not take even for no bytes.
  void write(std::byte* to, const void* from, int64_t bytes) const override {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }

  void read(void* to, const std::byte* from, int64_t bytes) const override {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }

  const Kernel& find_kernel(const OpDef& op) const override { return cpu::find_kernel(op); }
  Grouping grouping(const Graph&) const override {
    return {.is_pointwise = [](const Node& node) {
      return cpu::find_pointwise(*node.op) != nullptr && node.outputs.front().kind == Kind::real;
    }};
  }
  std::unique_ptr<Chain> make_chain(NodeGroup::Kind, std::vector<ChainStep> steps) const override {
    return std::make_unique<CpuChain>(std::move(steps));
  }

  std::unique_ptr<TensorMeter> make_meter() const override { return cpu::make_meter(); }

  std::unique_ptr<Recording> record(std::function<void()> work) const override {
    return std::make_unique<CpuRecording>(std::move(work));
  }
  void when_finite(std::span<const Buffer> numbers, const uint64_t* step, uint64_t* bad_step,
                   const std::function<void()>& body) const override {
    if (*bad_step == 0 && !std::ranges::all_of(numbers, is_finite)) *bad_step = *step + 1;
    if (*bad_step == 0 && body) body();
  }
  std::unique_ptr<Readout> read_later(std::vector<std::span<const std::byte>> from) const override {
    return std::make_unique<CpuReadout>(from);
  }

 private:
  static bool is_finite(const Buffer& buffer) {
    float room[cpu::kTile];
    int64_t size = buffer.count();
    for (int64_t first = 0; first < size; first += cpu::kTile) {
      int64_t count = std::min(cpu::kTile, size - first);
      if (!cpu::vectors().all_finite(cpu::load(buffer, first, count, room), count)) return false;
    }
    return true;
  }
};

}  // namespace

const Device& cpu_device() {
  static const CpuDevice device;
  return device;
}

}  // namespace sigma1
