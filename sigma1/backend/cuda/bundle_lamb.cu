// LAMB's steps of many tensors in three launches: squares of all chunks, the rate of each tensor,
// and steps by Adam's arithmetic at these rates. The bits are those of the step by itself.
#include "sigma1/backend/cuda/bundle_adam.cuh"
#include "sigma1/backend/cuda/lamb.cuh"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/ops/update.h"

namespace sigma1::cuda {
namespace {

struct LambTensor {
  int64_t first_chunk, chunks;
  double limit;  // of the ratio; 0: none
};

struct SquaresWork {
  const Adam& adam;
  StepChunk chunk;
  const Corrections& corrections;

  template <class Fours>
  __device__ __forceinline__ Squares of_plain(const Fours& fours) const {
    const Corrections inverse = corrections;
    const AdamRule rule = adam.rule;
    Squares sum;
#pragma unroll
    for (int i = 0; i < StepChunk::kFours; ++i) {
      if (chunk.four(i) >= chunk.end) break;
      AdamFour now = fours.at(i);
      sum.add(now.param, advanced(rule, inverse, now).direction);
    }
    return sum;
  }

  __device__ __forceinline__ Squares of_any() const { return squares_of(adam, corrections, chunk); }
};

template <bool kSixteen>
__global__ void __launch_bounds__(kThreads, kAdamBlocksAtOnce<kSixteen>)
    find_all_squares(AdamLaunch all, Squares* of_chunks) {
  __shared__ SharedAdam shared;
  const AdamChunk where = all.chunks[all.first + blockIdx.x];
  shared.copy(all.tasks[where.task]);
  const Adam& adam = shared.get();
  const StepChunk chunk(where.chunk, adam.param.view.count);
  SquaresWork work{adam, chunk, all.corrections[where.task]};
  Squares sum = with_formats<kSixteen>(where, adam, chunk, work).of_block();
  if (threadIdx.x == 0) of_chunks[all.first + blockIdx.x] = sum;
}

// A block for each tensor.
__global__ void find_rates(const Adam* tasks, const LambTensor* tensors, const Squares* of_chunks,
                           double* rates) {
  const LambTensor tensor = tensors[blockIdx.x];
  double rate = lamb_rate(of_chunks + tensor.first_chunk, tensor.chunks, tasks[blockIdx.x].rate,
                          tensor.limit);
  if (threadIdx.x == 0) rates[blockIdx.x] = rate;
}

std::vector<LambTensor> tensors_of(std::span<const AdamTask> tasks) {
  std::vector<LambTensor> tensors;
  int64_t first = 0;
  for (const AdamTask& each : tasks) {
    const Launch& launch = each.step->launch;
    int64_t chunks = StepChunk::count_for(launch.in(0).count());
    tensors.push_back({first, chunks, launch.attr<double>("max_trust_ratio")});
    first += chunks;
  }
  return tensors;
}

class LambSteps : public Chain {
 public:
  LambSteps(const Device& device, std::span<const AdamTask> tasks)
      : tables_(device, tasks),
        tensors_(device, tensors_of(tasks)),
        squares_(device, int64_t{tables_.chunk_count()} * int64_t{sizeof(Squares)}),
        rates_(device, int64_t{tensors_.count()} * int64_t{sizeof(double)}) {}

  void run(uint64_t) override {
    auto* squares = reinterpret_cast<Squares*>(squares_.data());
    auto* rates = reinterpret_cast<double*>(rates_.data());
    tables_.find_corrections();
    for (const AdamLaunch& each : tables_.launches()) {
      auto kernel = each.is_sixteen ? find_all_squares<true> : find_all_squares<false>;
      launch_kernel("bundle of lamb steps: squares", kernel, {each.count, kThreads}, each, squares);
    }
    find_rates<<<tensors_.count(), kThreads, 0, stream()>>>(tables_.tasks(), tensors_.data(),
                                                            squares, rates);
    check(cudaGetLastError(), "bundle of lamb steps: rates");
    tables_.step(rates);
  }

 private:
  AdamTables tables_;
  DeviceTable<LambTensor> tensors_;
  DeviceBytes squares_, rates_;
};

}  // namespace

bool is_bundled_lamb_step(const OpDef& op, const Launch& launch) {
  return &op == &lamb_step_op && AdamTables::fits(launch);
}

std::unique_ptr<Chain> bundle_lamb_steps(const Device& device, std::span<const ChainStep> steps,
                                         std::vector<const ChainStep*>& casts) {
  return std::make_unique<LambSteps>(device, AdamTables::tasks_of(steps, casts));
}

}  // namespace sigma1::cuda
