// Chains of pointwise ops on tensors of their own, on any device, for tests of their results and of
// their speed.
#pragma once

#include <cstring>
#include <deque>
#include <optional>

#include "sigma1/backend/device.h"
#include "sigma1/ops/reduce.h"
#include "tests/conformance/kernel_call.h"

namespace sigma1 {

// An input of an op: what an earlier op computed, or a tensor that is loaded.
struct ChainInput {
  int op = -1;
  size_t tensor = 0;
};
inline ChainInput result_of(int op) { return {op}; }
inline ChainInput tensor(size_t i) { return {-1, i}; }

struct ChainOp {
  const OpDef* op;
  std::vector<ChainInput> inputs;
  Attributes attributes = {};
};

struct ChainSpec {
  std::string name;
  std::vector<ChainOp> ops;
  std::vector<std::string> formats;  // of tensors that are loaded
  std::string out;
  Rounding rounding = Rounding::nearest_even;
  std::optional<ChainInput> summed = {};  // whose columns are summed up beside it, to fp32
};

// Numbers of both signs between 2^−18 and 2^14.
inline std::vector<float> wide_numbers(int64_t count, uint32_t seed) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint32_t bits = (static_cast<uint32_t>(i) + seed) * 2654435761u;
    bits = (bits ^ bits >> 15) * 2246822519u;
    bits ^= bits >> 13;
    uint32_t exponent = 127 - 18 + (bits >> 23) % 32;
    bits = (bits & 0x807FFFFF) | exponent << 23;
    std::memcpy(&numbers[i], &bits, sizeof bits);
  }
  return numbers;
}

class PlacedChain {
 public:
  // The tensors' numbers, of which each takes as many as its shape holds. With `turned` the result
  // is kept in both orientations.
  PlacedChain(const ChainSpec& spec, const std::vector<Shape>& shapes,
              const std::vector<std::span<const float>>& numbers, const Device& device, bool turned)
      : spec_(spec), device_(device) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      loaded_.push_back(placed(spec.formats[i], shapes[i]));
      write(loaded_.back(), numbers[i]);
    }
    out_ = placed(spec.out, shapes[0], spec.rounding);
    if (turned) out_.turned = memory_.emplace_back(device_, byte_count(out_)).data();
    if (spec.summed) sums_ = placed("fp32", {shapes[0].back()});
    chain_ = device_.make_chain(NodeGroup::Kind::pointwise, steps());
    if (chain_->workspace() == 0) return;
    chain_->set_workspace(memory_.emplace_back(device_, chain_->workspace()).data());
  }

  void run() const { chain_->run(KernelCall::kStep); }
  const Buffer& out() const { return out_; }
  std::vector<std::byte> codes() const { return bytes_at(out_.data); }
  std::vector<std::byte> turned_codes() const { return bytes_at(out_.turned); }
  std::vector<float> sums() const {
    std::vector<float> result(static_cast<size_t>(sums_.count()));
    device_.read(result.data(), sums_.data, byte_count(sums_));
    return result;
  }

  // Of all that is read and written.
  int64_t bytes() const {
    int64_t bytes = byte_count(out_) * (out_.turned ? 2 : 1);
    for (const Buffer& each : loaded_) bytes += byte_count(each);
    return bytes;
  }

 private:
  struct Step {
    std::vector<Buffer> inputs, outputs;
  };

  static int64_t byte_count(const Buffer& buffer) {
    return buffer.count() * (buffer.codec ? buffer.codec->bytes() : 4);
  }
  Buffer placed(const std::string& format, const Shape& shape,
                Rounding rounding = Rounding::nearest_even) {
    Buffer buffer;
    buffer.codec = codec_of(format, rounding);
    buffer.shape = shape;
    buffer.data = memory_.emplace_back(device_, byte_count(buffer)).data();
    return buffer;
  }
  void write(const Buffer& to, std::span<const float> numbers) const {
    if (to.codec == nullptr) return device_.write(to.data, numbers.data(), byte_count(to));
    std::vector<std::byte> codes(static_cast<size_t>(byte_count(to)));
    to.codec->encode(numbers.data(), codes.data(), to.count());
    device_.write(to.data, codes.data(), byte_count(to));
  }
  std::vector<std::byte> bytes_at(const std::byte* data) const {
    std::vector<std::byte> bytes(static_cast<size_t>(byte_count(out_)));
    device_.read(bytes.data(), data, byte_count(out_));
    return bytes;
  }

  std::vector<ChainStep> steps() {
    std::vector<ChainStep> steps;
    for (const ChainOp& each : spec_.ops) {
      Step& step = steps_.emplace_back();
      std::vector<int> producers;
      for (ChainInput from : each.inputs) {
        producers.push_back(from.op);
        step.inputs.push_back(from.op < 0 ? loaded_[from.tensor] : inner());
      }
      step.outputs.push_back(steps.size() + 1 == spec_.ops.size() ? out_ : inner());
      Launch launch{step.inputs, step.outputs, each.attributes,  factors_,
                    random_,     {},           KernelCall::kStep};
      steps.push_back({each.op, launch, producers});
    }
    if (spec_.summed) steps.push_back(sum_step(*spec_.summed));
    return steps;
  }
  ChainStep sum_step(ChainInput from) {
    static const Attributes kRows{{"axes", std::vector<int64_t>{0}}};
    Step& step = steps_.emplace_back();
    step.inputs.push_back(from.op < 0 ? loaded_[from.tensor] : inner());
    step.outputs.push_back(sums_);
    Launch launch{step.inputs, step.outputs, kRows, factors_, random_, {}, KernelCall::kStep};
    return {&sum_op, launch, {from.op}};
  }
  Buffer inner() const {
    Buffer buffer;
    buffer.shape = out_.shape;
    return buffer;
  }

  ChainSpec spec_;
  const Device& device_;
  std::deque<DeviceBytes> memory_;
  std::vector<Buffer> loaded_;
  Buffer out_, sums_;
  std::deque<Step> steps_;
  std::vector<float> factors_{0.5f};
  std::vector<RandomStream> random_{KernelCall::random(0)};
  std::unique_ptr<Chain> chain_;
};

}  // namespace sigma1
