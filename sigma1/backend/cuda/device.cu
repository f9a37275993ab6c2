#include "sigma1/backend/cuda/device.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "sigma1/backend/cuda/attention_parts.cuh"
#include "sigma1/backend/cuda/collective.cuh"
#include "sigma1/backend/cuda/eight_bits.cuh"
#include "sigma1/backend/cuda/grouping.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/rank_link.cuh"
#include "sigma1/backend/cuda/recording.cuh"
#include "sigma1/backend/cuda/stream.cuh"
#include "sigma1/backend/cuda/tensor_meter.cuh"
#include "sigma1/backend/cuda/turn.cuh"
#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

class CudaDevice : public Device {
 public:
  CudaDevice(int index, const ProductChoices& choices) : index_(index), choices_(choices) {}

  std::string name() const override {
    return fmt::format("cuda:{}{}", index_, to_string(choices_));
  }
  const ProductChoices& choices() const { return choices_; }

  std::byte* allocate(int64_t bytes) const override {
    void* memory = nullptr;
    auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
    cudaError_t status = cudaMalloc(&memory, size);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // or the next call would be told of it again
      size_t free = 0, total = 0;
      cuda::check(cudaMemGetInfo(&free, &total), "asking for free memory");
      throw Error("{}: {:.1f} MB of memory were asked for, and {:.1f} MB of {:.1f} MB are free",
                  name(), static_cast<double>(size) / 1e6, static_cast<double>(free) / 1e6,
                  static_cast<double>(total) / 1e6);
    }
    cuda::check(status, "allocating memory");
    cuda::check(cudaMemsetAsync(memory, 0, size, cuda::stream()), "clearing memory");
    return static_cast<std::byte*>(memory);
  }

  void release(std::byte* memory) const noexcept override {
    cuda::Stream::of_thread().forget(memory);
    cudaFree(memory);
  }

  void write(std::byte* to, const void* from, int64_t bytes) const override {
    cuda::Stream::of_thread().write(to, from, bytes);
  }
  void read(void* to, const std::byte* from, int64_t bytes) const override {
    auto size = static_cast<size_t>(bytes);
    cuda::check(cudaMemcpyAsync(to, from, size, cudaMemcpyDeviceToHost, cuda::stream()), "copying");
    cuda::Stream::of_thread().wait();
  }

  const Kernel& find_kernel(const OpDef& op) const override {
    using namespace cuda;
    for (auto family :
         {attention_kernels, cast_kernels, collective_kernels, conv_kernels, embedding_kernels,
          linear_kernels, norm_kernels, pointwise_kernels, recurrent_kernels, reduce_kernels,
          rotary_kernels, shape_kernels, softmax_kernels, source_kernels, update_kernels}) {
      for (const Kernel& kernel : family()) {
        if (kernel.op == &op) return kernel;
      }
    }
    throw Bug("{}: there is no CUDA kernel", op.name);
  }

  Grouping grouping(const Graph& graph) const override { return cuda::grouping(graph, choices_); }
  std::unique_ptr<Chain> make_chain(NodeGroup::Kind kind,
                                    std::vector<ChainStep> steps) const override {
    return cuda::make_chain(kind, std::move(steps));
  }

  bool reads_turned(const Graph& graph, int node, size_t input) const override {
    return cuda::reads_turned(graph, node, input);
  }
  bool takes_parts(const Graph& graph, int node, size_t input) const override {
    return cuda::attention_takes_parts(graph, node, input);
  }
  bool gives_parts(const Graph& graph, int node, size_t) const override {
    return cuda::attention_gives_parts(graph, node);
  }
  std::string why_not_8_bits(const Graph& graph, int node) const override {
    return cuda::why_not_8_bits(graph, node);
  }
  bool keeps_attention(const Graph& graph, int node) const override {
    return cuda::keeps_attention(graph, node);
  }
  void turn(const Buffer& buffer) const override { cuda::turn(buffer); }
  std::unique_ptr<TensorMeter> make_meter() const override { return cuda::make_meter(*this); }

  std::unique_ptr<Recording> record(std::function<void()> work) const override {
    return std::make_unique<cuda::CudaRecording>(std::move(work));
  }
  void when_finite(std::span<const Buffer> numbers, const uint64_t* step, uint64_t* bad_step,
                   const std::function<void()>& body) const override {
    cuda::when_finite(numbers, step, bad_step, body);
  }
  std::unique_ptr<Readout> read_later(std::vector<std::span<const std::byte>> from) const override {
    return std::make_unique<cuda::CudaReadout>(from);
  }

  void beside(const std::function<void()>& collectives) const override {
    cuda::beside(collectives);
  }
  void join() const override { cuda::join(); }
  void share_largest(std::span<uint32_t> words, std::span<std::byte> room) const override {
    cuda::share_largest(words, room);
  }

 private:
  int index_;
  ProductChoices choices_;
};

}  // namespace

int cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    cudaGetLastError();
    return 0;
  }
  return count;
}

namespace {

constexpr std::pair<int, int> kCapability{9, 0};  // Hopper

std::pair<int, int> capability(int index) {
  std::pair<int, int> result;
  const char* what = "asking what the GPU can do";
  auto ask = [&](int& to, cudaDeviceAttr of) {
    cuda::check(cudaDeviceGetAttribute(&to, of, index), what);
  };
  ask(result.first, cudaDevAttrComputeCapabilityMajor);
  ask(result.second, cudaDevAttrComputeCapabilityMinor);
  return result;
}

}  // namespace

bool cuda_device_suits(int index) { return capability(index) == kCapability; }

const Device& cuda_device(int index, const ProductChoices& choices) {
  if (index < 0 || index >= cuda_device_count()) {
    throw Error("cuda:{}: expected one of the GPUs of this machine, and it has {}", index,
                cuda_device_count());
  }
  if (!cuda_device_suits(index)) {
    auto [major, minor] = capability(index);
    throw Error("cuda:{}: expected a GPU of compute capability {}.{} (H100, H200), got {}.{}",
                index, kCapability.first, kCapability.second, major, minor);
  }
  static std::mutex mutex;
  static std::map<std::pair<int, ProductChoices>, CudaDevice> devices;
  std::lock_guard lock(mutex);
  cuda::check(cudaSetDevice(index), "choosing the GPU");
  return devices.try_emplace({index, choices}, index, choices).first->second;
}

const ProductChoices& product_choices(const Device& device) {
  return static_cast<const CudaDevice&>(device).choices();
}

}  // namespace sigma1
