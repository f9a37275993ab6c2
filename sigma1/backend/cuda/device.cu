#include "sigma1/backend/cuda/device.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "sigma1/backend/cuda/chain.cuh"
#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

// Several threads may write, all the same.
__global__ void find_non_finite(cuda::View view, int* found) {
  int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < view.count; i += stride) {
    if (!isfinite(cuda::load(view, i))) *found = 1;
  }
}

class CudaDevice : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) {}

  std::string name() const override { return fmt::format("cuda:{}", index_); }

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

  void release(std::byte* memory) const noexcept override { cudaFree(memory); }

  void write(std::byte* to, const void* from, int64_t bytes) const override {
    copy(to, from, bytes, cudaMemcpyHostToDevice);
  }
  void read(void* to, const std::byte* from, int64_t bytes) const override {
    copy(to, from, bytes, cudaMemcpyDeviceToHost);
  }

  const Kernel& find_kernel(const OpDef& op) const override {
    using namespace cuda;
    for (auto family :
         {attention_kernels, cast_kernels, conv_kernels, embedding_kernels, linear_kernels,
          norm_kernels, pointwise_kernels, recurrent_kernels, reduce_kernels, shape_kernels,
          softmax_kernels, source_kernels, update_kernels}) {
      for (const Kernel& kernel : family()) {
        if (kernel.op == &op) return kernel;
      }
    }
    throw Bug("{}: there is no CUDA kernel", op.name);
  }

  bool is_pointwise(const OpDef& op) const override { return cuda::is_pointwise(op); }
  std::unique_ptr<Chain> make_chain(std::vector<ChainStep> steps) const override {
    return std::make_unique<cuda::PointwiseChain>(std::move(steps));
  }

  bool are_finite(std::span<const Buffer> buffers) const override {
    DeviceBytes flag(*this, sizeof(int));
    auto* found = reinterpret_cast<int*>(flag.data());
    for (const Buffer& buffer : buffers) {
      cuda::View view = cuda::view_of(buffer, true);
      find_non_finite<<<cuda::blocks_for(view.count), cuda::kThreads, 0, cuda::stream()>>>(view,
                                                                                           found);
    }
    cuda::check(cudaGetLastError(), "looking for numbers that are not finite");
    int any = 0;
    read(&any, flag.data(), sizeof(any));
    return any == 0;
  }

 private:
  static void copy(void* to, const void* from, int64_t bytes, cudaMemcpyKind kind) {
    cuda::check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), kind, cuda::stream()),
                "copying");
    cuda::check(cudaStreamSynchronize(cuda::stream()), "waiting for a copy");
  }

  int index_;
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

const Device& cuda_device(int index) {
  if (index < 0 || index >= cuda_device_count()) {
    throw Error("cuda:{}: expected one of the GPUs of this machine, and it has {}", index,
                cuda_device_count());
  }
  static std::mutex mutex;
  static std::map<int, CudaDevice> devices;
  std::lock_guard lock(mutex);
  cuda::check(cudaSetDevice(index), "choosing the GPU");
  return devices.try_emplace(index, index).first->second;
}

}  // namespace sigma1
