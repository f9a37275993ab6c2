#include "tests/gpu/timed_call.h"

#include <algorithm>

#include "sigma1/backend/cuda/kernel.cuh"
#include "tests/gpu/placed_call.h"

namespace sigma1 {
namespace {

using cuda::check;

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
  constexpr int kLaunches = 20;
  PlacedCall placed(call, attributes);
  return microseconds_of(kLaunches, [&] { placed.run(); });
}

}  // namespace sigma1
