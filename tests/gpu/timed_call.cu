#include "tests/gpu/timed_call.h"

#include <algorithm>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/kernel.cuh"

namespace sigma1 {
namespace {

using cuda::check;

Buffer placed(Buffer buffer, std::vector<DeviceBytes>& memory) {
  int64_t bytes = buffer.count() * (buffer.codec ? buffer.codec->bytes() : 4);
  buffer.data = memory.emplace_back(cuda_device(), bytes).data();
  return buffer;
}

}  // namespace

double microseconds_of(int launches, const std::function<void()>& body) {
  cudaStream_t stream = cuda::stream();
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  body();  // what is set up on the first call
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < launches; ++i) body();
  check(cudaStreamEndCapture(stream, &graph), "end of capture");
  check(cudaGraphInstantiate(&ready, graph, 0), "graph");
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  float shortest = INFINITY;
  for (int i = 0; i < 5; ++i) {
    float milliseconds = 0;
    check(cudaEventRecord(begin, stream), "event");
    check(cudaGraphLaunch(ready, stream), "graph");
    check(cudaEventRecord(end, stream), "event");
    check(cudaEventSynchronize(end), "event");
    check(cudaEventElapsedTime(&milliseconds, begin, end), "event");
    shortest = std::min(shortest, milliseconds);
  }
  check(cudaEventDestroy(begin), "event");
  check(cudaEventDestroy(end), "event");
  check(cudaGraphExecDestroy(ready), "graph");
  check(cudaGraphDestroy(graph), "graph");
  return 1e3 * static_cast<double>(shortest) / launches;
}

double microseconds_of(const KernelCall& call, const Attributes& attributes) {
  std::vector<DeviceBytes> memory;
  std::vector<Buffer> inputs, outputs;
  std::vector<float> factors;
  std::vector<RandomStream> random;
  for (size_t i = 0; i < call.inputs().size(); ++i) {
    inputs.push_back(placed(call.input(i), memory));
    std::vector<std::byte> codes = encoded(inputs.back(), call.inputs()[i]);
    cuda_device().write(inputs.back().data, codes.data(), static_cast<int64_t>(codes.size()));
  }
  for (size_t o = 0; o < call.output_count(); ++o) {
    outputs.push_back(placed(call.output(o), memory));
    factors.push_back(call.factor(o));
    random.push_back(KernelCall::random(o));
  }
  const Kernel& kernel = call.kernel();
  auto launch_with = [&](std::span<std::byte> workspace) {
    return Launch{inputs, outputs, attributes, factors, random, workspace, KernelCall::kStep};
  };
  int64_t room = kernel.workspace ? kernel.workspace(launch_with({})) : 0;
  DeviceBytes workspace(cuda_device(), std::max<int64_t>(room, 1));
  Launch launch = launch_with({workspace.data(), static_cast<size_t>(room)});
  constexpr int kLaunches = 20;
  return microseconds_of(kLaunches, [&] { kernel.run(launch); });
}

}  // namespace sigma1
