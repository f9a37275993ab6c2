// Runs an op's kernel by itself, on any device, on tensors stored in chosen formats, and watches
// that it writes where it may and nowhere else.
#pragma once

#include <optional>

#include "sigma1/backend/device.h"

namespace sigma1 {

// Formats of real inputs and outputs, by name; the last one serves all that follow.
struct Storage {
  std::string name;
  std::vector<std::string> inputs, outputs;
  bool unit_factors = false;                   // where nothing is computed, bytes may be moved
  Rounding rounding = Rounding::nearest_even;  // of outputs
};

// Null for fp32. What does not fit becomes infinity in 16 bits and the largest number in 8.
const Codec* codec_of(const std::string& format, Rounding rounding = Rounding::nearest_even);

// Memory of a kernel's buffer, with guards behind it; what was not written is not a number.
class Memory {
 public:
  Memory(const Device& device, int64_t bytes);
  std::byte* data() const { return memory_.data(); }
  void write(std::span<const std::byte> bytes) const;
  std::vector<std::byte> bytes() const;
  bool is_intact() const;  // nobody wrote behind the end

 private:
  const Device& device_;
  int64_t size_;
  DeviceBytes memory_;
};

// One op with its inputs, ready to be run often.
class KernelCall {
 public:
  KernelCall(const OpDef& op, std::vector<TensorType> types, const Attributes& attributes,
             const Storage& storage, const std::vector<Tensor>& inputs,
             const Device& device = cpu_device());

  // The inputs as the format holds them.
  const std::vector<Tensor>& inputs() const { return rounded_; }
  const Kernel& kernel() const { return kernel_; }
  size_t output_count() const { return outputs_.size(); }
  const Buffer& input(size_t i) const { return inputs_[i]; }
  const Buffer& output(size_t o) const { return outputs_[o]; }
  float factor(size_t o) const;

  // Whether an output is rounded by the op, at a scale that follows its codes.
  bool has_scale(size_t o) const { return rounds_itself_ && o == 0; }

  // The outputs' bytes. `at[o]`, where given, is the input in whose memory output o lies. Throws
  // Bug when the kernel wrote where it may not.
  using Places = std::vector<std::optional<size_t>>;
  std::vector<std::vector<std::byte>> run(const Places& at = {}) const;

  static constexpr uint64_t kStep = 3;
  static RandomStream random(size_t o) { return RandomStream(7, "output", o); }

 private:
  const Device& device_;
  const Kernel& kernel_;
  const Attributes& attributes_;
  bool unit_factors_, rounds_itself_;
  std::vector<Tensor> rounded_;
  std::vector<std::vector<std::byte>> codes_;  // of the inputs
  std::vector<Buffer> inputs_, outputs_;
};

// What lies in a buffer of this kind, as numbers; a scale may follow the codes.
Tensor decoded(const Buffer& buffer, std::span<const std::byte> bytes);
std::vector<std::byte> encoded(const Buffer& buffer, const Tensor& tensor);

}  // namespace sigma1
