// A kernel whose first inputs are parts of one tensor's rows, and its outputs of another's.
#pragma once

#include <cstring>

#include "sigma1/backend/cuda/device.h"
#include "tests/conformance/kernel_call.h"

namespace sigma1 {

// The call with q, k and v as parts of one tensor's rows, and their gradients of another's.
inline std::vector<std::vector<std::byte>> run_in_parts(const KernelCall& call,
                                                        const Attributes& attributes) {
  constexpr int64_t kParts = 3;
  const Device& device = cuda_device();
  std::vector<DeviceBytes> memory;
  std::vector<Buffer> inputs, outputs;
  std::vector<float> factors;
  std::vector<RandomStream> random;
  auto bytes_of = [](const Buffer& buffer) {
    return buffer.count() * (buffer.codec != nullptr ? buffer.codec->bytes() : 4);
  };
  int64_t all = bytes_of(call.input(0)), rows = call.input(0).count() / call.input(0).shape.back();
  int64_t of_row = all / rows;
  std::vector<std::byte> whole(static_cast<size_t>(kParts * all));
  auto each_row = [&](int64_t part, auto body) {
    for (int64_t row = 0; row < rows; ++row) {
      body(whole.data() + (row * kParts + part) * of_row, row * of_row);
    }
  };
  for (int64_t i = 0; i < kParts; ++i) {
    auto input = static_cast<size_t>(i);
    std::vector<std::byte> codes = encoded(call.input(input), call.inputs()[input]);
    each_row(i, [&](std::byte* to, int64_t from) {
      std::memcpy(to, codes.data() + from, static_cast<size_t>(of_row));
    });
  }
  std::byte* of_inputs = memory.emplace_back(device, kParts * all).data();
  std::byte* of_outputs = memory.emplace_back(device, kParts * all).data();
  device.write(of_inputs, whole.data(), kParts * all);
  for (size_t i = 0; i < call.inputs().size(); ++i) {
    Buffer buffer = call.input(i);
    if (i < kParts) {
      buffer.data = of_inputs + static_cast<int64_t>(i) * of_row;
      buffer.pitch = kParts * buffer.shape.back();
    } else {
      std::vector<std::byte> codes = encoded(buffer, call.inputs()[i]);
      buffer.data = memory.emplace_back(device, bytes_of(buffer)).data();
      device.write(buffer.data, codes.data(), bytes_of(buffer));
    }
    inputs.push_back(buffer);
  }
  for (size_t o = 0; o < kParts; ++o) {
    Buffer buffer = call.output(o);
    buffer.data = of_outputs + static_cast<int64_t>(o) * of_row;
    buffer.pitch = kParts * buffer.shape.back();
    outputs.push_back(buffer);
    factors.push_back(call.factor(o));
    random.push_back(KernelCall::random(o));
  }
  auto launch_with = [&](std::span<std::byte> workspace) {
    return Launch{inputs, outputs, attributes, factors, random, workspace, KernelCall::kStep};
  };
  int64_t room = call.kernel().workspace(launch_with({}));
  DeviceBytes workspace(device, room);
  call.kernel().run(launch_with({workspace.data(), static_cast<size_t>(room)}));
  device.read(whole.data(), of_outputs, kParts * all);
  std::vector<std::vector<std::byte>> results(kParts,
                                              std::vector<std::byte>(static_cast<size_t>(all)));
  for (int64_t o = 0; o < kParts; ++o) {
    each_row(o, [&](const std::byte* from, int64_t to) {
      std::memcpy(results[static_cast<size_t>(o)].data() + to, from, static_cast<size_t>(of_row));
    });
  }
  return results;
}

}  // namespace sigma1
