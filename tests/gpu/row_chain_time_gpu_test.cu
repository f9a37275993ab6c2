// How long row chains take at the size of a small model, alone and beside those of other runs;
// nothing is asserted about it.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/cuda/stream.cuh"
#include "tests/gpu/row_chain_case.h"

namespace sigma1 {
namespace {

using cuda::check;

constexpr int kLaunches = 20, kRuns = 10;

// A chain with tensors of its own, as a graph of some launches in a stream of its own.
class OneRun {
 public:
  OneRun(const RowChainCase& c, int rows_of_block)
      : prepared_(c.prepare(std::vector<bool>(c.step_count(), true))),
        chain_(prepared_->steps, rows_of_block) {
    chain_.run(0);  // kernels are loaded when first used
    cuda::Stream::of_thread().wait();
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    check(cudaEventCreate(&end_), "event");
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    cuda::Stream::of_thread().with(stream_, [&] {
      for (int i = 0; i < kLaunches; ++i) chain_.run(0);
    });
    check(cudaStreamEndCapture(stream_, &graph), "end of capture");
    check(cudaGraphInstantiate(&ready_, graph, 0), "graph");
    check(cudaGraphDestroy(graph), "graph");
  }
  ~OneRun() {
    cudaGraphExecDestroy(ready_);
    cudaEventDestroy(end_);
    cudaStreamDestroy(stream_);
  }
  OneRun(const OneRun&) = delete;
  OneRun& operator=(const OneRun&) = delete;

  void launch() const { check(cudaGraphLaunch(ready_, stream_), "launch"); }
  void begin_after(cudaEvent_t begin) const {
    check(cudaStreamWaitEvent(stream_, begin), "begin of a run");
  }
  void end_before(cudaStream_t all) const {
    check(cudaEventRecord(end_, stream_), "end of a run");
    check(cudaStreamWaitEvent(all, end_), "end of a run");
  }

 private:
  std::unique_ptr<RowChainCase::Prepared> prepared_;
  cuda::RowChain chain_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t end_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
};

// Microseconds until each of some runs side by side has had a launch, of many.
double time_of(const RowChainCase& c, int rows_of_block, int runs) {
  std::deque<OneRun> all;
  for (int i = 0; i < runs; ++i) all.emplace_back(c, rows_of_block);
  cudaStream_t stream = cuda::stream();
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  float milliseconds = 0;
  for (bool warm : {false, true}) {
    check(cudaEventRecord(begin, stream), "begin");
    for (const OneRun& each : all) each.begin_after(begin);
    for (int i = 0; i < (warm ? kRuns : 1); ++i) {
      for (const OneRun& each : all) each.launch();
    }
    for (const OneRun& each : all) each.end_before(stream);
    check(cudaEventRecord(end, stream), "end");
    check(cudaEventSynchronize(end), "waiting");
    check(cudaEventElapsedTime(&milliseconds, begin, end), "time");
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return 1e3 * static_cast<double>(milliseconds) / (kLaunches * kRuns);
}

TEST(CudaRowChainTime, IsPrinted) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  RowChainSizes sizes{2048, 128, 512};
  RowChainCase forward = forward_chain(cuda_device(), sizes);
  RowChainCase backward = backward_chain(cuda_device(), sizes);
  for (int runs : {1, 2, 4}) {
    for (int rows_of_block : {16, 32, 64}) {
      std::printf("%d side by side, %d rows: forward %.2f us, backward %.2f us\n", runs,
                  rows_of_block, time_of(forward, rows_of_block, runs),
                  time_of(backward, rows_of_block, runs));
    }
  }
}

}  // namespace
}  // namespace sigma1
