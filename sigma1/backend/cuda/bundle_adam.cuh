// What bundles of steps by Adam's arithmetic share: tables of tensors and of their chunks, and how
// a block reads a chunk. For bundle_adam.cu and bundle_lamb.cu alone.
#pragma once

#include "sigma1/backend/cuda/bundle_kinds.cuh"
#include "sigma1/backend/cuda/update.cuh"

namespace sigma1::cuda {

struct AdamChunk {
  int task, chunk;
  Type plain;     // of weights and gradient where they are plain; index: they are not
  bool is_short;  // the first mean is of that type too
};

// Tensors, and their chunks one after the other.
class AdamTables {
 public:
  AdamTables(const Device& device, std::span<const ChainStep> steps)
      : AdamTables(device, tasks_of(steps)) {}

  const Adam* tasks() const { return tasks_.data(); }
  unsigned task_count() const { return tasks_.count(); }
  const AdamChunk* chunks() const { return chunks_.data(); }
  unsigned chunk_count() const { return chunks_.count(); }

  // The steps of all; `rates`: of each tensor, null: each its own.
  void step(const double* rates) const;

  static bool fits(const Launch& launch);

 private:
  AdamTables(const Device& device, std::span<const Adam> tasks)
      : tasks_(device, tasks), chunks_(device, chunks_of(tasks)) {}
  static std::vector<Adam> tasks_of(std::span<const ChainStep> steps);
  static std::vector<AdamChunk> chunks_of(std::span<const Adam> tasks);

  DeviceTable<Adam> tasks_;
  DeviceTable<AdamChunk> chunks_;
};

// The task in shared memory: from there it is read again after every store, which might have
// changed it for all the compiler knows.
struct SharedAdam {
  static constexpr int kWords = sizeof(Adam) / sizeof(uint32_t);
  static_assert(sizeof(Adam) % sizeof(uint32_t) == 0);
  alignas(Adam) uint32_t words[kWords];

  __device__ void copy(const Adam& task) {
    const auto* from = reinterpret_cast<const uint32_t*>(&task);
    for (int i = static_cast<int>(threadIdx.x); i < kWords; i += kThreads) words[i] = from[i];
    __syncthreads();
  }
  __device__ const Adam& get() const { return *reinterpret_cast<const Adam*>(words); }
};

// This thread's part of a chunk, with weights and gradient of kType, the first mean of kMean, the
// second of fp32, all on whole packs. All of it is under way before anything is made a number of.
template <Type kType, Type kMean>
struct PlainFours {
  static constexpr Type kWeights = kType, kFirstMean = kMean;
  uint4 codes[StepChunk::kFours][4] = {};

  __device__ __forceinline__ PlainFours(const Adam& adam, const StepChunk& chunk) {
#pragma unroll
    for (int i = 0; i < StepChunk::kFours; ++i) {
      int64_t first = chunk.four(i);
      if (first >= chunk.end) break;
      codes[i][0] = load_codes(plain(kType, adam.param.view.data), first);
      codes[i][1] = load_codes(plain(kType, adam.grad.view.data), first);
      codes[i][2] = load_codes(plain(kMean, adam.m.view.data), first);
      codes[i][3] = load_codes(plain(Type::fp32, adam.v.view.data), first);
    }
  }
  __device__ __forceinline__ AdamFour at(int i) const {
    return {numbers_of(plain(kType), codes[i][0]), numbers_of(plain(kType), codes[i][1]),
            numbers_of(plain(kMean), codes[i][2]), numbers_of(plain(Type::fp32), codes[i][3])};
  }
  __device__ static View plain(Type type, void* data = nullptr) {
    return {data, type, false, nullptr, 0};
  }
};

// work.of_plain with this thread's PlainFours, or work.of_any where the chunk is not plain. Both
// must be inlined, or what a thread holds goes through memory.
template <class Work>
__device__ __forceinline__ auto with_formats(const AdamChunk& where, const Adam& adam,
                                             const StepChunk& chunk, const Work& work) {
  switch (where.plain) {
    case Type::fp16:
      if (where.is_short) return work.of_plain(PlainFours<Type::fp16, Type::fp16>(adam, chunk));
      return work.of_plain(PlainFours<Type::fp16, Type::fp32>(adam, chunk));
    case Type::bf16:
      if (where.is_short) return work.of_plain(PlainFours<Type::bf16, Type::bf16>(adam, chunk));
      return work.of_plain(PlainFours<Type::bf16, Type::fp32>(adam, chunk));
    case Type::fp32:
      return work.of_plain(PlainFours<Type::fp32, Type::fp32>(adam, chunk));
    default:
      return work.of_any();
  }
}

}  // namespace sigma1::cuda
