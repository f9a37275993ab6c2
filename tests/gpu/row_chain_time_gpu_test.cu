// How long row chains take at the size of a small model, alone and beside those of other runs;
// nothing is asserted about it.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include "sigma1/backend/cuda/cluster_chain.cuh"
#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/cuda/row_chain.cuh"
#include "sigma1/backend/cuda/stream.cuh"
#include "tests/gpu/row_chain_case.h"

namespace sigma1 {
namespace {

using cuda::check;

constexpr int kLaunches = 20, kRuns = 10;

// A chain with tensors of its own, as a graph of some launches in a stream of its own.
class OneRun {
 public:
  OneRun(const RowChainCase& c, const RowChainCase::Make& make)
      : prepared_(c.prepare(std::vector<bool>(c.step_count(), true))),
        chain_(make(prepared_->steps)) {
    chain_->run(0);  // kernels are loaded when first used
    cuda::Stream::of_thread().wait();
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    check(cudaEventCreate(&end_), "event");
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    cuda::Stream::of_thread().with(stream_, [&] {
      for (int i = 0; i < kLaunches; ++i) chain_->run(0);
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
  std::unique_ptr<Chain> chain_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t end_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
};

// Microseconds until each of some runs side by side has had a launch, of many.
double time_of(const RowChainCase& c, const RowChainCase::Make& make, int runs) {
  std::deque<OneRun> all;
  for (int i = 0; i < runs; ++i) all.emplace_back(c, make);
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

void print_times(const std::string& what, const RowChainCase::Make& make) {
  RowChainSizes sizes{2048, 128, 512};
  RowChainCase forward = forward_chain(cuda_device(), sizes);
  RowChainCase backward = backward_chain(cuda_device(), sizes);
  for (int runs : {1, 2, 4}) {
    std::printf("%d side by side, %s: forward %.2f us, backward %.2f us\n", runs, what.c_str(),
                time_of(forward, make, runs), time_of(backward, make, runs));
  }
}

TEST(CudaRowChainTime, IsPrinted) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (int rows : {16, 32}) {
    print_times(fmt::format("blocks of {} rows", rows), [=](const std::vector<ChainStep>& steps) {
      return std::make_unique<cuda::RowChain>(steps, rows);
    });
  }
}

TEST(CudaClusterChainTime, IsPrinted) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (cuda::ClusterShape shape : {cuda::ClusterShape{80, 4}, {32, 2}}) {
    auto make = [=](const std::vector<ChainStep>& steps) {
      return std::make_unique<cuda::ClusterChain>(steps, shape);
    };
    print_times(fmt::format("{} rows to {} blocks", shape.rows, shape.ranks), make);
  }
}

}  // namespace
}  // namespace sigma1
