// Adam's steps of many tensors: a block for each chunk of a tensor, with the arithmetic, and so the
// bits, of the step by itself.
#include <algorithm>

#include "sigma1/backend/cuda/bundle_kinds.cuh"
#include "sigma1/backend/cuda/update.cuh"
#include "sigma1/ops/update.h"

namespace sigma1::cuda {
namespace {

constexpr int kFours = 4;  // of a thread
constexpr int64_t kChunk = 4 * kFours * kThreads;

struct AdamChunk {
  int task, chunk;
  Type plain;     // of weights and gradient where they are plain; index: they are not
  bool is_short;  // the first mean is of that type too
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

// The i-th four of this thread.
__device__ inline int64_t four_of(int64_t begin, int i) {
  return begin + 4 * (static_cast<int>(threadIdx.x) + i * kThreads);
}

// How stochastic rounding to the type goes, known to the compiler.
template <Type kType>
__device__ Output known_output(Output to) {
  to.view.type = kType;
  to.packs = true;
  to.stochastic = to.stochastic && kType != Type::fp32;
  if (!to.stochastic) return to;
  to.step = {nullptr, to.step()};
  to.mantissa_bits = kType == Type::fp16 ? 10 : 7;
  to.lowest_field = kType == Type::fp16 ? 127 - 14 : 1;
  to.sign_shift = 16;
  return to;
}

// Weights, gradient and new weights of kType, the first mean of kMean, the second of fp32, all on
// whole packs. Everything that is read is under way before the corrections are found.
template <Type kType, Type kMean>
__device__ void step_plain(const Adam& adam, int64_t begin, int64_t end) {
  auto view = [](const Input& input, Type type) {
    return View{input.view.data, type, false, nullptr, 0};
  };
  const View p = view(adam.param, kType), g = view(adam.grad, kType);
  const View m = view(adam.m, kMean), v = view(adam.v, Type::fp32);
  uint4 codes[kFours][4] = {};
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    int64_t first = four_of(begin, i);
    if (first >= end) break;
    codes[i][0] = load_codes(p, first);
    codes[i][1] = load_codes(g, first);
    codes[i][2] = load_codes(m, first);
    codes[i][3] = load_codes(v, first);
  }
  Corrections inverse = find_corrections(adam);
  const AdamRule rule = adam.rule;
  const Next to_param = adam.next_param, to_m = adam.next_m, to_v = adam.next_v;
  const Output weights = known_output<kType>(to_param.out);
  float step = to_param.step_of(adam.rate());
#pragma unroll
  for (int i = 0; i < kFours; ++i) {
    int64_t first = four_of(begin, i);
    if (first >= end) break;
    AdamFour now{numbers_of(p, codes[i][0]), numbers_of(g, codes[i][1]), numbers_of(m, codes[i][2]),
                 numbers_of(v, codes[i][3])};
    AdamResult next = advanced(rule, inverse, now);
    write(weights, first, to_param.moved(now.param, next.direction, step));
    for (float& each : next.m.at) each *= to_m.factor;
    for (float& each : next.v.at) each *= to_v.factor;
    store_four({to_m.out.view.data, kMean, to_m.out.view.saturates, nullptr, 0}, first, next.m);
    store_four({to_v.out.view.data, Type::fp32, false, nullptr, 0}, first, next.v);
  }
}

__device__ inline void step_any(const Adam& adam, int64_t begin, int64_t end) {
  double lr = adam.rate();
  Corrections inverse = find_corrections(adam);
  for (int i = 0; i < kFours; ++i) {
    int64_t first = four_of(begin, i);
    if (first < end) step_four(adam, inverse, lr, first);
  }
}

__global__ void __launch_bounds__(kThreads, 2)
    step_all_adam(const Adam* tasks, const AdamChunk* chunks) {
  __shared__ SharedAdam shared;
  const AdamChunk where = chunks[blockIdx.x];
  shared.copy(tasks[where.task]);
  const Adam& adam = shared.get();
  int64_t begin = where.chunk * kChunk, end = min(begin + kChunk, adam.param.view.count);
  switch (where.plain) {
    case Type::fp16:
      if (where.is_short) return step_plain<Type::fp16, Type::fp16>(adam, begin, end);
      return step_plain<Type::fp16, Type::fp32>(adam, begin, end);
    case Type::bf16:
      if (where.is_short) return step_plain<Type::bf16, Type::bf16>(adam, begin, end);
      return step_plain<Type::bf16, Type::fp32>(adam, begin, end);
    case Type::fp32:
      return step_plain<Type::fp32, Type::fp32>(adam, begin, end);
    default:
      return step_any(adam, begin, end);
  }
}

// The type of a plain step, else index.
Type plain_type(const Adam& adam) {
  Type type = adam.param.view.type;
  auto fits = [](const auto& each, Type wanted) {
    return each.view.type == wanted && each.packs && each.view.scale == nullptr;
  };
  auto is_state = [&](const Input& now, const Next& next, Type wanted) {
    return fits(now, wanted) && fits(next.out, wanted) && !next.out.stochastic;
  };
  bool means_fit =
      (is_state(adam.m, adam.next_m, Type::fp32) || is_state(adam.m, adam.next_m, type)) &&
      is_state(adam.v, adam.next_v, Type::fp32);
  bool weights_fit =
      fits(adam.param, type) && fits(adam.grad, type) && fits(adam.next_param.out, type);
  bool is_plain = weights_fit && means_fit && adam.param.view.count % 4 == 0;
  bool has_kernel = type == Type::fp16 || type == Type::bf16 || type == Type::fp32;
  return is_plain && has_kernel ? type : Type::index;
}

std::vector<Adam> tasks_of(std::span<const ChainStep> steps) {
  std::vector<Adam> tasks;
  for (const ChainStep& each : steps) tasks.emplace_back(each.launch);
  return tasks;
}

std::vector<AdamChunk> chunks_of(std::span<const Adam> tasks) {
  std::vector<AdamChunk> chunks;
  for (int task = 0; task < static_cast<int>(tasks.size()); ++task) {
    const Adam& adam = tasks[static_cast<size_t>(task)];
    Type plain = plain_type(adam);
    for (int chunk = 0; chunk * kChunk < adam.param.view.count; ++chunk) {
      chunks.push_back({task, chunk, plain, adam.m.view.type == plain});
    }
  }
  return chunks;
}

class AdamSteps : public Chain {
 public:
  AdamSteps(const Device& device, std::span<const Adam> tasks)
      : tasks_(device, tasks), chunks_(device, chunks_of(tasks)) {}

  void run(uint64_t) override {
    step_all_adam<<<chunks_.count(), kThreads, 0, stream()>>>(tasks_.data(), chunks_.data());
    check(cudaGetLastError(), "bundle of adam steps");
  }

 private:
  DeviceTable<Adam> tasks_;
  DeviceTable<AdamChunk> chunks_;
};

}  // namespace

bool is_bundled_adam_step(const OpDef& op, const Launch& launch) {
  constexpr int64_t kMost = int64_t{1} << 40;
  return &op == &adam_step_op && launch.in(0).count() > 0 && launch.in(0).count() < kMost;
}

std::unique_ptr<Chain> bundle_adam_steps(const Device& device, std::span<const ChainStep> steps) {
  return std::make_unique<AdamSteps>(device, tasks_of(steps));
}

}  // namespace sigma1::cuda
