#include "sigma1/backend/cuda/recording.cuh"

#include <vector>

#include "sigma1/backend/cuda/stream.cuh"

namespace sigma1::cuda {
namespace {

thread_local CudaRecording* being_made = nullptr;

// Tensors are cut into pieces for a block each.
constexpr int kMostViews = 256, kPiece = 8192;

struct Numbers {
  View at[kMostViews];
  int first_block[kMostViews];
  int count = 0, blocks = 0;

  void add(const View& view) {
    at[count] = view;
    first_block[count++] = blocks;
    blocks += static_cast<int>((view.count + kPiece - 1) / kPiece);
  }
};

// Whether one of a word's numbers, of 16 bits or 32, has all bits of its exponent set.
__device__ bool has_non_finite(uint32_t word, uint32_t exponents) {
  uint32_t low = exponents & 0xFFFFU, high = exponents & ~0xFFFFU;
  return (word & high) == high || (low != 0 && (word & low) == low);
}

__device__ bool has_non_finite(const View& view, int64_t first, int64_t last) {
  bool words = reinterpret_cast<uintptr_t>(view.data) % 16 == 0 && (last - first) % 8 == 0;
  bool found = false;
  if (words && (view.type == Type::fp16 || view.type == Type::bf16 || view.type == Type::fp32)) {
    uint32_t exponents = view.type == Type::fp16   ? 0x7C007C00U
                         : view.type == Type::bf16 ? 0x7F807F80U
                                                   : 0x7F800000U;
    int64_t each = view.type == Type::fp32 ? 4 : 8;
    const auto* groups = static_cast<const uint4*>(view.data);
#pragma unroll 4
    for (int64_t i = first / each + threadIdx.x; i < last / each; i += blockDim.x) {
      uint4 group = groups[i];
      for (uint32_t word : {group.x, group.y, group.z, group.w}) {
        found = found || has_non_finite(word, exponents);
      }
    }
    return found;
  }
  for (int64_t i = first + threadIdx.x; i < last; i += blockDim.x) {
    found = found || !isfinite(load(view, i));
  }
  return found;
}

// Several threads may write, all the same. The body that waits for the condition is run unless it
// is taken back here.
__global__ void find_non_finite(const __grid_constant__ Numbers numbers, const uint64_t* step,
                                uint64_t* bad_step, cudaGraphConditionalHandle condition) {
  auto block = static_cast<int>(blockIdx.x);
  if (block == 0 && threadIdx.x == 0 && condition && *bad_step != 0) {
    cudaGraphSetConditional(condition, 0);
  }
  int low = 0, high = numbers.count;  // the last that begins at this block or before
  while (high - low > 1) {
    int middle = (low + high) / 2;
    (numbers.first_block[middle] <= block ? low : high) = middle;
  }
  const View& view = numbers.at[low];
  int64_t first = int64_t{block - numbers.first_block[low]} * kPiece;
  if (!has_non_finite(view, first, min(view.count, first + kPiece))) return;
  *bad_step = *step + 1;
  if (condition) cudaGraphSetConditional(condition, 0);
}

__global__ void find_bad_step(const uint64_t* bad_step, cudaGraphConditionalHandle condition) {
  if (*bad_step != 0) cudaGraphSetConditional(condition, 0);
}

void launch_checks(std::span<const Buffer> buffers, const uint64_t* step, uint64_t* bad_step,
                   cudaGraphConditionalHandle condition) {
  if (buffers.empty() && condition) {
    find_bad_step<<<1, 1, 0, stream()>>>(bad_step, condition);
    check(cudaGetLastError(), "looking for a bad step");
  }
  Numbers numbers;
  for (size_t i = 0; i < buffers.size(); ++i) {
    numbers.add(view_of(buffers[i], true));
    if (numbers.count < kMostViews && i + 1 < buffers.size()) continue;
    auto blocks = static_cast<unsigned>(numbers.blocks);
    find_non_finite<<<blocks, kThreads, 0, stream()>>>(numbers, step, bad_step, condition);
    check(cudaGetLastError(), "looking for numbers that are not finite");
    numbers = {};
  }
}

struct Capture {
  cudaGraph_t graph = nullptr;
  std::vector<cudaGraphNode_t> last;  // what is launched next waits for these

  // Empty where nothing is captured.
  explicit Capture(cudaStream_t from) {
    cudaStreamCaptureStatus status{};
    const cudaGraphNode_t* nodes = nullptr;
    size_t count = 0;
    check(cudaStreamGetCaptureInfo(from, &status, nullptr, &graph, &nodes, nullptr, &count),
          "asking for the graph");
    if (status != cudaStreamCaptureStatusActive) graph = nullptr;
    if (graph) last.assign(nodes, nodes + count);
  }
};

// A node of the graph that holds `body`, run where the condition is still true.
void append_conditional(cudaGraphConditionalHandle condition, const std::function<void()>& body) {
  Stream& own = Stream::of_thread();
  Capture capture(own.handle());
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  parameters.conditional.handle = condition;
  parameters.conditional.type = cudaGraphCondTypeIf;
  parameters.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
  check(cudaGraphAddNode(&node, capture.graph, capture.last.data(), nullptr, capture.last.size(),
                         &parameters),
        "adding a condition");
  cudaStream_t side = nullptr;
  check(cudaStreamCreateWithFlags(&side, cudaStreamNonBlocking), "making a stream");
  check(cudaStreamBeginCaptureToGraph(side, parameters.conditional.phGraph_out[0], nullptr, nullptr,
                                      0, cudaStreamCaptureModeThreadLocal),
        "recording a condition");
  own.with(side, body);
  check(cudaStreamEndCapture(side, nullptr), "recording a condition");
  check(cudaStreamDestroy(side), "recording a condition");
  check(cudaStreamUpdateCaptureDependencies(own.handle(), &node, nullptr, 1,
                                            cudaStreamSetCaptureDependencies),
        "recording a condition");
}

}  // namespace

void when_finite(std::span<const Buffer> numbers, const uint64_t* step, uint64_t* bad_step,
                 const std::function<void()>& body) {
  Capture capture(stream());
  if (capture.graph && body) {
    cudaGraphConditionalHandle condition{};
    check(
        cudaGraphConditionalHandleCreate(&condition, capture.graph, 1, cudaGraphCondAssignDefault),
        "making a condition");
    launch_checks(numbers, step, bad_step, condition);
    return append_conditional(condition, body);
  }
  launch_checks(numbers, step, bad_step, 0);
  if (!body) return;
  uint64_t bad = 0;
  check(cudaMemcpyAsync(&bad, bad_step, sizeof(bad), cudaMemcpyDeviceToHost, stream()),
        "asking for results");
  Stream::of_thread().wait();
  if (bad == 0) body();
}

void CudaRecording::run() {
  if (!ran_) {
    work_();
    ran_ = true;
    return;
  }
  if (parts_.empty()) record();
  for (const Part& part : parts_) {
    check(cudaGraphLaunch(part.graph.get(), stream()), "running a graph");
    if (part.host_work) part.host_work();
  }
}

void CudaRecording::record() {
  being_made = this;
  try {
    begin();
    work_();
    end({});
  } catch (...) {
    being_made = nullptr;
    parts_.clear();
    cudaGraph_t graph = nullptr;
    cudaStreamEndCapture(stream(), &graph);
    if (graph) cudaGraphDestroy(graph);
    throw;
  }
  being_made = nullptr;
}

void CudaRecording::begin() const {
  check(cudaStreamBeginCapture(stream(), cudaStreamCaptureModeThreadLocal), "recording");
}

void CudaRecording::end(std::function<void()> host_work) {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t ready = nullptr;
  check(cudaStreamEndCapture(stream(), &graph), "recording");
  check(cudaGraphInstantiate(&ready, graph, 0), "making a graph ready");
  parts_.push_back({decltype(Part::graph)(ready), std::move(host_work)});
  check(cudaGraphDestroy(graph), "recording");
}

void between_graphs(std::function<void()> host_work) {
  if (being_made == nullptr) return host_work();
  being_made->end(std::move(host_work));
  being_made->begin();
}

}  // namespace sigma1::cuda
