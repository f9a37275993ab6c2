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

inline bool is_sixteen(Type type) { return type == Type::fp16 || type == Type::bf16; }

// The copy of 8 bits that is made of new weights [rows, width], both multiples of 16.
struct AdamCopy {
  int64_t rows, width;  // 0: there is none
  uint32_t* codes;      // four neighbours in each
  uint8_t* turned;      // the same as [width, rows], or null
  bool is_e4m3;         // else E5M2

  int squares() const;
};

// Chunks from `first` on that one launch takes: plain ones of 16 bits, which need fewer registers,
// or the others.
struct AdamLaunch {
  const Adam* tasks;
  const AdamChunk* chunks;
  const Corrections* corrections;  // of each task
  unsigned first, count;
  bool is_sixteen;
};

// A tensor's step, and the copy that goes with it.
struct AdamTask {
  const ChainStep* step;
  AdamCopy copy{};

  Type plain() const;  // of weights and gradient; index: they are not plain
};

// Tensors without copies first; of either, those that are plain and of 16 bits first. Their chunks
// one after the other; where there are copies, squares as well.
class AdamTables {
 public:
  AdamTables(const Device& device, std::span<const AdamTask> tasks);

  const Adam* tasks() const { return tasks_.data(); }
  unsigned chunk_count() const { return chunks_.count(); }

  // Comes before launches of a step: powers in double would take a block as long as all the rest.
  void find_corrections() const;
  // All chunks.
  std::vector<AdamLaunch> launches() const;
  // The steps of all; `rates`: of each tensor, null: each its own.
  void step(const double* rates) const;

  static bool fits(const Launch& launch);
  // In the order of the tables. Casts that become copies are taken from `casts`.
  static std::vector<AdamTask> tasks_of(std::span<const ChainStep> steps,
                                        std::vector<const ChainStep*>& casts);

 private:
  // Neighbours in a table that one launch takes.
  struct Range {
    unsigned first = 0, count = 0;
    bool is_sixteen = false, is_copied = false;
  };
  struct Chunks {
    std::vector<AdamChunk> all;
    std::vector<Range> ranges;
  };
  AdamTables(const Device& device, std::span<const Adam> tasks, std::span<const AdamCopy> copies,
             const Chunks& chunks, const Chunks& squares);
  static Chunks chunks_of(std::span<const AdamTask> tasks, bool in_squares);
  AdamLaunch launch_of(const DeviceTable<AdamChunk>& chunks, const Range& range) const;

  DeviceTable<Adam> tasks_;
  DeviceTable<AdamCopy> copies_;
  DeviceTable<AdamChunk> chunks_, squares_;
  std::vector<Range> chunk_ranges_, square_ranges_;
  DeviceBytes corrections_;
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

  template <class Chunk>
  __device__ __forceinline__ PlainFours(const Adam& adam, const Chunk& chunk) {
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

// work.of_plain with this thread's PlainFours. It must be inlined, or what a thread holds goes
// through memory.
template <bool kSixteen, class Chunk, class Work>
__device__ __forceinline__ auto with_plain(const AdamChunk& where, const Adam& adam,
                                           const Chunk& chunk, const Work& work) {
  if constexpr (kSixteen) {
    if (where.plain == Type::fp16) {
      if (where.is_short) return work.of_plain(PlainFours<Type::fp16, Type::fp16>(adam, chunk));
      return work.of_plain(PlainFours<Type::fp16, Type::fp32>(adam, chunk));
    }
    if (where.is_short) return work.of_plain(PlainFours<Type::bf16, Type::bf16>(adam, chunk));
    return work.of_plain(PlainFours<Type::bf16, Type::fp32>(adam, chunk));
  } else {
    return work.of_plain(PlainFours<Type::fp32, Type::fp32>(adam, chunk));
  }
}

// The same, or work.of_any, inlined too, where the chunk is not plain.
template <bool kSixteen, class Work>
__device__ __forceinline__ auto with_formats(const AdamChunk& where, const Adam& adam,
                                             const StepChunk& chunk, const Work& work) {
  if constexpr (!kSixteen) {
    if (where.plain != Type::fp32) return work.of_any();
  }
  return with_plain<kSixteen>(where, adam, chunk, work);
}

template <bool kSixteen>
constexpr int kAdamBlocksAtOnce = kSixteen ? 3 : 2;

}  // namespace sigma1::cuda
