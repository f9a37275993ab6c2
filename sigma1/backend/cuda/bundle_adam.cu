// Adam's steps of many tensors: a block for each chunk of a tensor, with the arithmetic, and so the
// bits, of the step by itself.
#include "sigma1/backend/cuda/bundle_adam.cuh"

#include <algorithm>

#include "sigma1/backend/cuda/launch.cuh"
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

struct AdamWork {
  const Adam& adam;
  StepChunk chunk;
  const Corrections& corrections;
  const double* found_rate;

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
      write(weights, first, to_param.moved(now.param, next.direction, step));
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
  with_formats<kSixteen>(where, adam, chunk,
                         AdamWork{adam, chunk, all.corrections[where.task], found_rate});
}

// A block for each tensor.
__global__ void find_all_corrections(const Adam* tasks, Corrections* corrections) {
  Corrections found = find_corrections(tasks[blockIdx.x]);
  if (threadIdx.x == 0) corrections[blockIdx.x] = found;
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

class AdamSteps : public Chain {
 public:
  AdamSteps(const Device& device, std::span<const ChainStep> steps) : tables_(device, steps) {}
  void run(uint64_t) override {
    tables_.find_corrections();
    tables_.step(nullptr);
  }

 private:
  AdamTables tables_;
};

}  // namespace

std::vector<ChainStep> AdamTables::in_order(std::span<const ChainStep> steps) {
  std::vector<ChainStep> ordered;
  for (bool sixteen : {true, false}) {
    for (const ChainStep& each : steps) {
      if (is_sixteen(plain_type(Adam(each.launch))) == sixteen) ordered.push_back(each);
    }
  }
  return ordered;
}

std::vector<Adam> AdamTables::tasks_of(std::span<const ChainStep> steps) {
  std::vector<Adam> tasks;
  for (const ChainStep& each : in_order(steps)) tasks.emplace_back(each.launch);
  return tasks;
}

AdamTables::AdamTables(const Device& device, std::span<const Adam> tasks,
                       std::span<const AdamChunk> chunks)
    : tasks_(device, tasks),
      chunks_(device, chunks),
      corrections_(device, static_cast<int64_t>(tasks.size() * sizeof(Corrections))),
      sixteen_chunks_(static_cast<unsigned>(std::ranges::count_if(
          chunks, [](const AdamChunk& chunk) { return is_sixteen(chunk.plain); }))) {}

std::vector<AdamChunk> AdamTables::chunks_of(std::span<const Adam> tasks) {
  std::vector<AdamChunk> chunks;
  for (int task = 0; task < static_cast<int>(tasks.size()); ++task) {
    const Adam& adam = tasks[static_cast<size_t>(task)];
    Type plain = plain_type(adam);
    for (int chunk = 0; chunk < StepChunk::count_for(adam.param.view.count); ++chunk) {
      chunks.push_back({task, chunk, plain, adam.m.view.type == plain});
    }
  }
  return chunks;
}

void AdamTables::find_corrections() const {
  auto* to = reinterpret_cast<Corrections*>(corrections_.data());
  launch_kernel("bundle of adam steps", find_all_corrections, {tasks_.count(), 64}, tasks_.data(),
                to);
}

std::vector<AdamLaunch> AdamTables::launches() const {
  AdamLaunch all{.tasks = tasks_.data(),
                 .chunks = chunks_.data(),
                 .corrections = reinterpret_cast<const Corrections*>(corrections_.data())};
  std::vector<AdamLaunch> launches;
  auto add = [&](unsigned first, unsigned count, bool sixteen) {
    all.first = first;
    all.count = count;
    all.is_sixteen = sixteen;
    if (count > 0) launches.push_back(all);
  };
  add(0, sixteen_chunks_, true);
  add(sixteen_chunks_, chunks_.count() - sixteen_chunks_, false);
  return launches;
}

void AdamTables::step(const double* rates) const {
  for (const AdamLaunch& each : launches()) {
    auto kernel = each.is_sixteen ? step_all_adam<true> : step_all_adam<false>;
    launch_kernel("bundle of adam steps", kernel, {each.count, kThreads}, each, rates);
  }
}

bool AdamTables::fits(const Launch& launch) {
  constexpr int64_t kMost = int64_t{1} << 40;
  return launch.in(0).count() > 0 && launch.in(0).count() < kMost;
}

bool is_bundled_adam_step(const OpDef& op, const Launch& launch) {
  return &op == &adam_step_op && AdamTables::fits(launch);
}

std::unique_ptr<Chain> bundle_adam_steps(const Device& device, std::span<const ChainStep> steps) {
  return std::make_unique<AdamSteps>(device, steps);
}

}  // namespace sigma1::cuda
