#include "tests/conformance/kernel_call.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

// Not a number in any format, so that what was not written shows.
constexpr std::byte kUnwritten{0xFF};
constexpr int64_t kGuard = 128;

int64_t byte_count(const Buffer& buffer) {
  return buffer.count() * (buffer.codec ? buffer.codec->bytes() : 4);
}

const std::string& format_of(const std::vector<std::string>& formats, size_t i) {
  return formats[std::min(i, formats.size() - 1)];
}

Buffer buffer_of(const TensorType& type, const std::string& format, Rounding rounding) {
  Buffer buffer;
  buffer.shape = type.shape;
  buffer.kind = type.kind;
  if (type.kind == Kind::real) buffer.codec = codec_of(format, rounding);
  return buffer;
}

}  // namespace

std::vector<std::byte> encoded(const Buffer& buffer, const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<size_t>(byte_count(buffer)));
  if (buffer.kind == Kind::index) {
    std::vector<int32_t> indices(tensor.data.begin(), tensor.data.end());
    std::memcpy(bytes.data(), indices.data(), bytes.size());
    return bytes;
  }
  std::vector<float> values(tensor.data.begin(), tensor.data.end());
  if (buffer.codec) {
    buffer.codec->encode(values.data(), bytes.data(), tensor.count());
  } else {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  return bytes;
}

const Codec* codec_of(const std::string& format, Rounding rounding) {
  static std::map<std::pair<std::string, Rounding>, Codec> codecs;
  if (format == "fp32") return nullptr;
  FloatFormat found = find_format(format).format;
  Overflow overflow = found.bytes() == 1 ? Overflow::saturate : Overflow::infinity;
  auto place = codecs.try_emplace({format, rounding}, Cast{found, rounding, overflow, 1}).first;
  return &place->second;
}

Memory::Memory(const Device& device, int64_t bytes)
    : device_(device), size_(bytes), memory_(device, bytes + kGuard) {
  std::vector<std::byte> unwritten(static_cast<size_t>(memory_.size()), kUnwritten);
  device_.write(memory_.data(), unwritten.data(), memory_.size());
}

void Memory::write(std::span<const std::byte> bytes) const {
  device_.write(memory_.data(), bytes.data(), static_cast<int64_t>(bytes.size()));
}

std::vector<std::byte> Memory::bytes() const {
  std::vector<std::byte> read(static_cast<size_t>(size_));
  device_.read(read.data(), memory_.data(), size_);
  return read;
}

bool Memory::is_intact() const {
  std::byte guard[kGuard];
  device_.read(guard, memory_.data() + size_, kGuard);
  return std::ranges::all_of(guard, [](std::byte each) { return each == kUnwritten; });
}

KernelCall::KernelCall(const OpDef& op, std::vector<TensorType> types, const Attributes& attributes,
                       const Storage& storage, const std::vector<Tensor>& inputs,
                       const Device& device)
    : device_(device),
      kernel_(device.find_kernel(op)),
      attributes_(attributes),
      unit_factors_(storage.unit_factors),
      rounds_itself_(op.rounds_itself) {
  // Such an op knows its format, and what it keeps beside is fp32.
  auto format_for = [&](const std::vector<std::string>& formats, size_t i, bool is_output) {
    if (!rounds_itself_) return format_of(formats, i);
    if (i > 0) return std::string("fp32");
    return is_output ? attributes.get<std::string>("format") : formats.front();
  };
  for (size_t i = 0; i < types.size(); ++i) {
    std::string format = format_for(storage.inputs, i, false);
    inputs_.push_back(buffer_of(types[i], format, Rounding::nearest_even));
    codes_.push_back(encoded(inputs_[i], inputs[i]));
    rounded_.push_back(decoded(inputs_[i], codes_[i]));
  }
  for (const TensorType& type : op.infer({types, attributes})) {
    std::string format = format_for(storage.outputs, outputs_.size(), true);
    outputs_.push_back(buffer_of(type, format, storage.rounding));
  }
  if (&device == &cpu_device()) return;
  for (Buffer& input : inputs_) input.device = &device;
  for (Buffer& output : outputs_) output.device = &device;
}

// No power of two, which would hide in an exponent; exact in fp32.
float KernelCall::factor(size_t o) const {
  bool is_state = rounds_itself_ && o > 0;
  bool unit = unit_factors_ || outputs_[o].kind == Kind::index || is_state;
  return unit ? 1 : 0.75f + 0.125f * static_cast<float>(o % 2);
}

std::vector<std::vector<std::byte>> KernelCall::run(const Places& at) const {
  std::vector<Buffer> inputs = inputs_, outputs = outputs_;
  std::vector<Memory> memory;
  memory.reserve(inputs.size() + outputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    inputs[i].data = memory.emplace_back(device_, byte_count(inputs[i])).data();
    memory.back().write(codes_[i]);
  }
  std::vector<float> factors;
  std::vector<RandomStream> randoms;
  std::vector<size_t> where;  // in memory, each output
  std::vector<bool> overwritten(inputs.size());
  Memory scale(device_, sizeof(float));
  if (rounds_itself_) outputs.front().scale = reinterpret_cast<float*>(scale.data());
  for (size_t o = 0; o < outputs.size(); ++o) {
    bool in_place = o < at.size() && at[o];
    if (in_place) overwritten[*at[o]] = true;
    if (!in_place) memory.emplace_back(device_, byte_count(outputs[o]));
    where.push_back(in_place ? *at[o] : memory.size() - 1);
    outputs[o].data = memory[where[o]].data();
    factors.push_back(factor(o));
    randoms.push_back(random(o));
  }
  Launch launch{inputs, outputs, attributes_, factors, randoms, {}, kStep};
  int64_t room = kernel_.workspace ? kernel_.workspace(launch) : 0;
  std::vector<std::byte> zeros(static_cast<size_t>(kernel_.state ? kernel_.state(launch) : 0));
  Memory workspace(device_, room), state(device_, static_cast<int64_t>(zeros.size()));
  state.write(zeros);
  launch.workspace = {workspace.data(), static_cast<size_t>(room)};
  launch.state = {state.data(), zeros.size()};
  kernel_.run(launch);

  for (const Memory& each : memory) {
    if (!each.is_intact()) throw Bug("written behind a buffer's end");
  }
  if (!workspace.is_intact()) throw Bug("written behind the workspace's end");
  if (!state.is_intact()) throw Bug("written behind the state's end");
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!overwritten[i] && memory[i].bytes() != codes_[i]) throw Bug("input {} was overwritten", i);
  }
  std::vector<std::vector<std::byte>> results;
  for (size_t o = 0; o < outputs.size(); ++o) {
    results.push_back(memory[where[o]].bytes());
    if (outputs[o].scale == nullptr) continue;
    std::vector<std::byte> of_scale = scale.bytes();
    results.back().insert(results.back().end(), of_scale.begin(), of_scale.end());
  }
  return results;
}

Tensor decoded(const Buffer& buffer, std::span<const std::byte> bytes) {
  Tensor tensor(buffer.shape);
  if (buffer.kind == Kind::index) {
    std::vector<int32_t> indices(tensor.data.size());
    std::memcpy(indices.data(), bytes.data(), bytes.size());
    tensor.data.assign(indices.begin(), indices.end());
    return tensor;
  }
  std::vector<float> values(tensor.data.size());
  if (buffer.codec) {
    buffer.codec->decode(bytes.data(), values.data(), tensor.count());
  } else {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  }
  tensor.data.assign(values.begin(), values.end());
  auto codes = static_cast<size_t>(byte_count(buffer));
  if (bytes.size() == codes) return tensor;
  float scale = 0;
  std::memcpy(&scale, bytes.data() + codes, sizeof(scale));
  for (double& x : tensor.data) x *= static_cast<double>(scale);
  return tensor;
}

}  // namespace sigma1
