#include "tests/backend/run_kernel.h"

namespace sigma1::cpu {
namespace {

const Codec* codec_at(const std::vector<const Codec*>& codecs, size_t i) {
  return i < codecs.size() ? codecs[i] : nullptr;
}

struct Stored {
  std::vector<std::byte> bytes;
  Buffer buffer;

  Stored(const TensorType& type, const Codec* codec) {
    const Codec* used = type.kind == Kind::real ? codec : nullptr;
    int64_t size = used ? used->bytes() : static_cast<int64_t>(sizeof(float));
    bytes.resize(static_cast<size_t>(type.count() * size));
    buffer = {bytes.data(), used, type.shape, type.kind};
  }
  Stored(const TensorType& type, const Codec* codec, const Tensor& values) : Stored(type, codec) {
    if (type.kind == Kind::index) {
      for (int64_t i = 0; i < values.count(); ++i)
        buffer.indices()[i] = static_cast<int32_t>(values[i]);
    } else {
      std::vector<float> floats(values.data.begin(), values.data.end());
      store(buffer, 0, values.count(), floats.data());
    }
  }
  std::vector<float> values() const {
    if (buffer.kind == Kind::index) return {buffer.indices(), buffer.indices() + buffer.count()};
    std::vector<float> room(static_cast<size_t>(buffer.count()));
    const float* values = load(buffer, 0, buffer.count(), room.data());
    return {values, values + buffer.count()};
  }
};

}  // namespace

KernelRunner::KernelRunner(const Kernel& kernel, const KernelCase& c) : kernel_(kernel), case_(c) {
  OpView view{c.inputs, c.attributes};
  output_types_ = c.op->infer(view);
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs_.push_back(sample_input(*c.op, view, i, false, 1));
  }
}

std::vector<std::vector<float>> KernelRunner::run(const KernelRun& how) const {
  std::vector<Stored> inputs, outputs;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs.emplace_back(case_.inputs[i], codec_at(how.input_codecs, i), inputs_[i]);
  }
  for (size_t o = 0; o < output_types_.size(); ++o) {
    outputs.emplace_back(output_types_[o], codec_at(how.output_codecs, o));
    if (how.in_place_input >= 0 && o == how.in_place_output)
      outputs[o].buffer.data = inputs[static_cast<size_t>(how.in_place_input)].bytes.data();
  }
  std::vector<Buffer> input_buffers, output_buffers;
  for (const Stored& each : inputs) input_buffers.push_back(each.buffer);
  for (const Stored& each : outputs) output_buffers.push_back(each.buffer);
  std::vector<float> factors = how.factors;
  factors.resize(outputs.size(), 1);
  std::vector<RandomStream> random(outputs.size());
  Launch launch{input_buffers, output_buffers, case_.attributes, factors, random, {}, how.step};
  int64_t size = kernel_.workspace ? kernel_.workspace(launch) : 0;
  std::vector<std::byte> workspace(static_cast<size_t>(size) + 64, std::byte{0xFF});
  auto misaligned = reinterpret_cast<uintptr_t>(workspace.data()) % 64;
  launch.workspace = std::span(workspace).subspan(misaligned == 0 ? 0 : 64 - misaligned,
                                                  static_cast<size_t>(size));
  kernel_.run(launch);
  std::vector<std::vector<float>> results;
  for (const Stored& each : outputs) results.push_back(each.values());
  return results;
}

std::vector<Tensor> KernelRunner::expected(const KernelRun& how) const {
  std::vector<Tensor> inputs, outputs;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Stored stored(case_.inputs[i], codec_at(how.input_codecs, i), inputs_[i]);
    std::vector<float> values = stored.values();
    inputs.emplace_back(case_.inputs[i].shape, std::vector<double>(values.begin(), values.end()));
  }
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  for (const TensorType& type : output_types_) outputs.emplace_back(type.shape);
  case_.op->evaluate({pointers, outputs, case_.attributes, how.step});
  for (size_t o = 0; o < how.factors.size(); ++o) {
    for (double& value : outputs[o].data) value *= how.factors[o];
  }
  return outputs;
}

}  // namespace sigma1::cpu
