#include "tests/gpu/placed_call.h"

#include "sigma1/backend/cuda/device.h"

namespace sigma1 {
namespace {

int64_t byte_count(const Buffer& buffer) {
  return buffer.count() * (buffer.codec ? buffer.codec->bytes() : 4);
}

}  // namespace

PlacedCall::PlacedCall(const KernelCall& call, const Attributes& attributes, bool with_state)
    : kernel_(call.kernel()), launch_{{}, {}, attributes, {}, {}, {}, KernelCall::kStep} {
  for (size_t i = 0; i < call.inputs().size(); ++i) {
    inputs_.push_back(placed(call.input(i)));
    std::vector<std::byte> codes = encoded(inputs_.back(), call.inputs()[i]);
    cuda_device().write(inputs_.back().data, codes.data(), static_cast<int64_t>(codes.size()));
  }
  for (size_t o = 0; o < call.output_count(); ++o) {
    outputs_.push_back(placed(call.output(o)));
    factors_.push_back(call.factor(o));
    random_.push_back(KernelCall::random(o));
  }
  launch_.inputs = inputs_;
  launch_.outputs = outputs_;
  launch_.factors = factors_;
  launch_.random = random_;
  int64_t workspace = kernel_.workspace ? kernel_.workspace(launch_) : 0;
  int64_t state = kernel_.state && with_state ? kernel_.state(launch_) : 0;
  launch_.workspace = add_memory(workspace);
  launch_.state = add_memory(state);
}

std::span<std::byte> PlacedCall::add_memory(int64_t bytes) {
  return {memory_.emplace_back(cuda_device(), bytes).data(), static_cast<size_t>(bytes)};
}

Buffer PlacedCall::placed(Buffer buffer) {
  buffer.data = add_memory(byte_count(buffer)).data();
  return buffer;
}

std::vector<std::vector<std::byte>> PlacedCall::outputs() const {
  std::vector<std::vector<std::byte>> all;
  for (const Buffer& each : outputs_) {
    all.emplace_back(static_cast<size_t>(byte_count(each)));
    cuda_device().read(all.back().data(), each.data, byte_count(each));
  }
  return all;
}

}  // namespace sigma1
