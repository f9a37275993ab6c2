// How long row chains take at the size of a small model; nothing is asserted about it.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/kernel.cuh"
#include "tests/gpu/row_chain_case.h"

namespace sigma1 {
namespace {

using cuda::check;

// Microseconds of a launch, of ten runs of a graph of twenty.
double time_of(const RowChainCase& c, const cuda::RowForm& form) {
  constexpr int kLaunches = 20, kRuns = 10;
  auto prepared = c.prepare(std::vector<bool>(c.step_count(), true));
  cuda::RowChain chain(prepared->steps, form);
  cudaStream_t stream = cuda::stream();
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  cudaEvent_t begin, end;
  chain.run(0);  // kernels are loaded when first used
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < kLaunches; ++i) chain.run(0);
  check(cudaStreamEndCapture(stream, &graph), "end of capture");
  check(cudaGraphInstantiate(&ready, graph, 0), "graph");
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  check(cudaGraphLaunch(ready, stream), "first launch");
  check(cudaEventRecord(begin, stream), "begin");
  for (int i = 0; i < kRuns; ++i) check(cudaGraphLaunch(ready, stream), "launch");
  check(cudaEventRecord(end, stream), "end");
  check(cudaEventSynchronize(end), "waiting");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin, end), "time");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(ready);
  cudaGraphDestroy(graph);
  return 1e3 * static_cast<double>(milliseconds) / (kLaunches * kRuns);
}

TEST(CudaRowChainTime, IsPrinted) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  RowChainSizes sizes{2048, 128, 512};
  RowChainCase forward = forward_chain(cuda_device(), sizes);
  RowChainCase backward = backward_chain(cuda_device(), sizes);
  for (cuda::RowForm form : {cuda::RowForm{16}, {32}, {16, 1}, {16, 2}, {16, 4}}) {
    std::printf("blocks of %d rows, clusters of %d: forward %.2f us, backward %.2f us\n",
                form.rows_of_block, form.cluster, time_of(forward, form), time_of(backward, form));
  }
}

}  // namespace
}  // namespace sigma1
