// Adam's steps of many tensors: a block for each chunk of a tensor, with the arithmetic, and so the
// bits, of the step by itself. Weights of which products read a copy of 8 bits are cut into
// squares, and leave the copy on the way, as a cast of its own would make it.
#include "sigma1/backend/cuda/bundle_adam.cuh"

#include <algorithm>

#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/turn.cuh"
#include "sigma1/ops/update.h"

namespace sigma1::cuda {
namespace {

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

// Writes four neighbours, and gives them as they are stored.
template <Type kType>
__device__ __forceinline__ Four write_and_read(const Output& to, int64_t first,
                                               const Four& values) {
  if constexpr (kType == Type::fp32) {
    write(to, first, values);
    return values;
  } else {
    uint2 codes;
    const View here{&codes, kType, to.view.saturates, nullptr, 4};
    if (to.stochastic) {
      uint32_t each[4];
      stochastic_codes(to, first, values, each);
      store_codes(here, 0, each);
    } else {
      store_four(here, 0, values);
    }
    static_cast<uint2*>(to.view.data)[first / 4] = codes;
    return load_four(here, 0);
  }
}

// A square of a matrix that has a copy, as TurnRoom has it: four neighbours of four rows are a
// thread's. All four lie in the matrix or none does.
struct StepSquare {
  int64_t first_row, first_column, begin, width, end;

  __device__ StepSquare(int square, const AdamCopy& copy) : width(copy.width) {
    int across = static_cast<int>((width + kTurnSide - 1) / kTurnSide);
    first_row = int64_t{square / across} * kTurnSide;
    first_column = int64_t{square % across} * kTurnSide;
    int64_t row = first_row + TurnRoom::row(), column = first_column + TurnRoom::column();
    begin = row * width + column;
    end = row < copy.rows && column < width ? copy.rows * width : 0;
  }

  // May lie behind the end.
  __device__ int64_t four(int i) const { return begin + i * width; }
};
static_assert(StepChunk::kFours == 4);

struct NoCopy {
  template <Type kType>
  __device__ __forceinline__ void write_weights(int, int64_t first, const Output& to,
                                                const Four& values) {
    write(to, first, values);
  }
};

// Of one thread.
struct Copying {
  const AdamCopy& copy;
  uint32_t words[4] = {};  // of its rows

  template <Type kType>
  __device__ __forceinline__ void write_weights(int row, int64_t first, const Output& to,
                                                const Four& values) {
    const Four stored = write_and_read<kType>(to, first, values);
    const __nv_fp8_interpretation_t format = copy.is_e4m3 ? __NV_E4M3 : __NV_E5M2;
    uint32_t low = __nv_cvt_float2_to_fp8x2({stored.at[0], stored.at[1]}, __NV_SATFINITE, format);
    uint32_t high = __nv_cvt_float2_to_fp8x2({stored.at[2], stored.at[3]}, __NV_SATFINITE, format);
    words[row] = low | high << 16;
    copy.codes[first / 4] = words[row];
  }
};

// `Copy` is told of every four weights as they are written.
template <class Chunk, class Copy>
struct AdamWork {
  const Adam& adam;
  const Chunk& chunk;
  const Corrections& corrections;
  const double* found_rate;
  Copy& copy;

  // The new weights are of the type of the old, and so are the means.
  template <class Fours>
  __device__ __forceinline__ void of_plain(const Fours& fours) const {
    const Corrections inverse = corrections;
    const AdamRule rule = adam.rule;
    const Next to_param = adam.next_param, to_m = adam.next_m, to_v = adam.next_v;
    const Output weights = known_output<Fours::kWeights>(to_param.out);
    float step = to_param.step_of(rate_of(adam, found_rate));
#pragma unroll
    for (int i = 0; i < StepChunk::kFours; ++i) {
      int64_t first = chunk.four(i);
      if (first >= chunk.end) break;
      AdamFour now = fours.at(i);
      AdamResult next = advanced(rule, inverse, now);
      copy.template write_weights<Fours::kWeights>(i, first, weights,
                                                   to_param.moved(now.param, next.direction, step));
      for (float& each : next.m.at) each *= to_m.factor;
      for (float& each : next.v.at) each *= to_v.factor;
      const View& m = to_m.out.view;
      store_four({m.data, Fours::kFirstMean, m.saturates, nullptr, 0}, first, next.m);
      store_four(Fours::plain(Type::fp32, to_v.out.view.data), first, next.v);
    }
  }

  __device__ __forceinline__ void of_any() const {
    double rate = rate_of(adam, found_rate);
    const Corrections inverse = corrections;
    for (int i = 0; i < StepChunk::kFours; ++i) {
      int64_t first = chunk.four(i);
      if (first < chunk.end) step_four(adam, inverse, rate, first);
    }
  }
};

template <bool kSixteen>
__global__ void __launch_bounds__(kThreads, kAdamBlocksAtOnce<kSixteen>)
    step_all_adam(AdamLaunch all, const double* rates) {
  __shared__ SharedAdam shared;
  const AdamChunk where = all.chunks[all.first + blockIdx.x];
  shared.copy(all.tasks[where.task]);
  const Adam& adam = shared.get();
  const StepChunk chunk(where.chunk, adam.param.view.count);
  const double* found_rate = rates == nullptr ? nullptr : rates + where.task;
  NoCopy none;
  AdamWork<StepChunk, NoCopy> work{adam, chunk, all.corrections[where.task], found_rate, none};
  with_formats<kSixteen>(where, adam, chunk, work);
}

// A block for each square: the copy leaves in both orientations.
template <bool kSixteen>
__global__ void __launch_bounds__(kThreads, kAdamBlocksAtOnce<kSixteen>)
    step_all_squares(AdamLaunch all, const AdamCopy* copies, const double* rates) {
  __shared__ SharedAdam shared;
  __shared__ TurnRoom room;
  const AdamChunk where = all.chunks[all.first + blockIdx.x];
  shared.copy(all.tasks[where.task]);
  const Adam& adam = shared.get();
  const AdamCopy& copy = copies[where.task];
  const StepSquare square(where.chunk, copy);
  const double* found_rate = rates == nullptr ? nullptr : rates + where.task;
  Copying copying{copy};
  AdamWork<StepSquare, Copying> work{adam, square, all.corrections[where.task], found_rate,
                                     copying};
  with_plain<kSixteen>(where, adam, square, work);
  if (copy.turned == nullptr) return;
  if (square.begin < square.end) room.put(copying.words);
  __syncthreads();
  room.take(copy.turned, copy.rows, copy.width, square.first_row, square.first_column);
}

// A block for each tensor.
__global__ void find_all_corrections(const Adam* tasks, Corrections* corrections) {
  Corrections found = find_corrections(tasks[blockIdx.x]);
  if (threadIdx.x == 0) corrections[blockIdx.x] = found;
}

class AdamSteps : public Chain {
 public:
  AdamSteps(const Device& device, std::span<const AdamTask> tasks) : tables_(device, tasks) {}
  void run(uint64_t) override {
    tables_.find_corrections();
    tables_.step(nullptr);
  }

 private:
  AdamTables tables_;
};

}  // namespace

void AdamTables::find_corrections() const {
  auto* to = reinterpret_cast<Corrections*>(corrections_.data());
  launch_kernel("bundle of adam steps", find_all_corrections, {tasks_.count(), 64}, tasks_.data(),
                to);
}

void AdamTables::step(const double* rates) const {
  for (const Range& each : chunk_ranges_) {
    if (each.is_copied) continue;
    auto kernel = each.is_sixteen ? step_all_adam<true> : step_all_adam<false>;
    launch_kernel("bundle of adam steps", kernel, {each.count, kThreads}, launch_of(chunks_, each),
                  rates);
  }
  for (const Range& each : square_ranges_) {
    auto kernel = each.is_sixteen ? step_all_squares<true> : step_all_squares<false>;
    launch_kernel("bundle of adam steps and copies", kernel, {each.count, kThreads},
                  launch_of(squares_, each), copies_.data(), rates);
  }
}

bool is_bundled_adam_step(const OpDef& op, const Launch& launch) {
  return &op == &adam_step_op && AdamTables::fits(launch);
}

std::unique_ptr<Chain> bundle_adam_steps(const Device& device, std::span<const ChainStep> steps,
                                         std::vector<const ChainStep*>& casts) {
  return std::make_unique<AdamSteps>(device, AdamTables::tasks_of(steps, casts));
}

}  // namespace sigma1::cuda
