#include "sigma1/backend/cuda/tensor_meter.cuh"

#include <algorithm>
#include <bit>
#include <limits>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/cuda/reduce.cuh"

namespace sigma1::cuda {
namespace {

constexpr unsigned kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
constexpr int kMeterThreads = 256, kFields = 256, kTables = 4;
constexpr int64_t kMostBlocks = 1024;

using Count = unsigned long long;

// Of a tensor, zeros before it is looked at. Blocks add counts to it, in any order; sums are added
// up by the last.
struct Found {
  Count zeros, nonfinite, to_zero, subnormal, beyond;
  double sum, sum_squares;
  // Magnitudes of the finite that are not zero, the smallest by what it lacks to the largest.
  unsigned above_smallest, largest;
  unsigned blocks_done, unused;
  Count fields[kFields];  // numbers by fp32's exponent field
};

// What a block found.
struct PartSums {
  double sum, sum_squares;
};

// As fp32's bits, which compare like the numbers.
struct LimitBits {
  unsigned zero_up_to, normal_from, finite_up_to;
};

__host__ __device__ unsigned bits_of(float number) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(number);
#else
  return std::bit_cast<unsigned>(number);
#endif
}

__host__ __device__ LimitBits bits_of(const FormatLimits& limits, float scale) {
  constexpr float kLargest = 0x1.fffffep127f;
  float largest = limits.finite_up_to * scale;
  return {bits_of(limits.zero_up_to * scale), bits_of(limits.normal_from * scale),
          bits_of(largest < kLargest ? largest : kLargest)};
}

struct LargerWord {
  __device__ unsigned operator()(unsigned a, unsigned b) const { return max(a, b); }
};

template <class Visit>
__device__ void for_each_number(const View& x, Visit visit) {
  int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < x.count; i += step)
    visit(load(x, i));
}

// Of a thread, then of its block.
struct LossCounts {
  Count to_zero = 0, subnormal = 0, beyond = 0;

  __device__ void add(unsigned magnitude, const LimitBits& limits) {
    bool is_there = magnitude > 0, vanishes = is_there && magnitude <= limits.zero_up_to;
    to_zero += vanishes;
    subnormal += is_there && !vanishes && magnitude < limits.normal_from;
    beyond += magnitude > limits.finite_up_to;
  }
  __device__ void add_to(Found& found) const {
    Count zero = block_reduce(to_zero, Plus()), small = block_reduce(subnormal, Plus());
    Count large = block_reduce(beyond, Plus());
    if (threadIdx.x > 0) return;
    atomicAdd(&found.to_zero, zero);
    atomicAdd(&found.subnormal, small);
    atomicAdd(&found.beyond, large);
  }
};

// The last block to come by adds up what all have found, in their order.
__device__ void add_up(const PartSums* parts, Found& found) {
  __shared__ bool is_last;
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(&found.blocks_done, 1u) + 1 == gridDim.x;
  }
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  double sum = 0, sum_squares = 0;
  for (unsigned i = threadIdx.x; i < gridDim.x; i += kMeterThreads) {
    sum += __ldcg(&parts[i].sum);
    sum_squares += __ldcg(&parts[i].sum_squares);
  }
  sum = block_sum(sum);
  sum_squares = block_sum(sum_squares);
  if (threadIdx.x > 0) return;
  found.sum = sum;
  found.sum_squares = sum_squares;
}

// `has_limits`: losses are counted too.
__global__ void __launch_bounds__(kMeterThreads)
    find_stats(View x, bool has_limits, LimitBits limits, PartSums* parts, Found* to) {
  Found& found = *to;
  // Neighbours often share a binade: warps take turns on several tables.
  __shared__ unsigned tables[kTables][kFields];
  for (int i = static_cast<int>(threadIdx.x); i < kTables * kFields; i += kMeterThreads)
    tables[i / kFields][i % kFields] = 0;
  __syncthreads();
  unsigned* table = tables[threadIdx.x / 32 % kTables];
  Count zeros = 0, nonfinite = 0;
  double sum = 0, sum_squares = 0;
  unsigned above_smallest = 0, largest = 0;
  LossCounts losses;
  for_each_number(x, [&](float value) {
    unsigned magnitude = __float_as_uint(value) & kMagnitude;
    atomicAdd(table + (magnitude >> 23), 1u);
    losses.add(magnitude, limits);
    zeros += magnitude == 0;
    nonfinite += magnitude >= kInfinity;
    if (magnitude == 0 || magnitude >= kInfinity) return;
    sum += value;
    sum_squares += static_cast<double>(value) * value;
    above_smallest = max(above_smallest, kMagnitude - magnitude);
    largest = max(largest, magnitude);
  });
  zeros = block_reduce(zeros, Plus());
  nonfinite = block_reduce(nonfinite, Plus());
  sum = block_sum(sum);
  sum_squares = block_sum(sum_squares);
  above_smallest = block_reduce(above_smallest, LargerWord());
  largest = block_reduce(largest, LargerWord());
  if (has_limits) losses.add_to(found);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = {sum, sum_squares};
    atomicAdd(&found.zeros, zeros);
    atomicAdd(&found.nonfinite, nonfinite);
    atomicMax(&found.above_smallest, above_smallest);
    atomicMax(&found.largest, largest);
  }
  // The reductions above have synchronised all threads behind their last count.
  Count numbers = 0;
  for (const auto& each : tables) numbers += each[threadIdx.x];
  if (numbers > 0) atomicAdd(&found.fields[threadIdx.x], numbers);
  add_up(parts, found);
}
static_assert(kMeterThreads == kFields);

// Of numbers that are scaled by what find_stats found.
__global__ void __launch_bounds__(kMeterThreads)
    find_fitted_loss(View x, FormatLimits limits, float fit_to, Found* found) {
  LimitBits bits =
      bits_of(limits, found->largest > 0 ? __uint_as_float(found->largest) / fit_to : 1);
  LossCounts losses;
  for_each_number(x, [&](float value) { losses.add(__float_as_uint(value) & kMagnitude, bits); });
  losses.add_to(*found);
}

unsigned blocks_for(int64_t count) {
  constexpr int64_t kNumbers = 8 * kMeterThreads;
  return static_cast<unsigned>(
      std::clamp<int64_t>((count + kNumbers - 1) / kNumbers, 1, kMostBlocks));
}

TensorFindings findings_of(const Found& found, int64_t count) {
  auto number = [](Count each) { return static_cast<int64_t>(each); };
  TensorFindings result;
  TensorStats& stats = result.stats;
  stats.count = count;
  stats.zeros = number(found.zeros);
  stats.nonfinite = number(found.nonfinite);
  stats.sum = found.sum;
  stats.sum_squares = found.sum_squares;
  if (found.largest > 0) {
    stats.abs_min = std::bit_cast<float>(kMagnitude - found.above_smallest);
    stats.abs_max = std::bit_cast<float>(found.largest);
  }
  for (size_t i = 0; i < stats.binades.size(); ++i) stats.binades[i] = number(found.fields[i]);
  stats.binades[0] -= stats.zeros;
  result.loss = {number(found.to_zero), number(found.subnormal), number(found.beyond)};
  return result;
}

class CudaMeter : public TensorMeter {
 public:
  explicit CudaMeter(const Device& device)
      : device_(device), parts_(device, kMostBlocks * static_cast<int64_t>(sizeof(PartSums))) {}

  void look_at(const Buffer& buffer, const FormatLimits& limits, float fit_to) override {
    Found* found = next();
    counts_.push_back(buffer.count());
    View x = view_of(buffer, true);
    unsigned blocks = blocks_for(x.count);
    auto* parts = reinterpret_cast<PartSums*>(parts_.data());
    bool fits = fit_to > 0;
    find_stats<<<blocks, kMeterThreads, 0, stream()>>>(x, !fits, bits_of(limits, 1), parts, found);
    if (fits) find_fitted_loss<<<blocks, kMeterThreads, 0, stream()>>>(x, limits, fit_to, found);
    check(cudaGetLastError(), "measuring a tensor");
  }

  std::vector<TensorFindings> take() override {
    std::vector<TensorFindings> result;
    std::vector<Found> chunk(kChunk);
    for (size_t i = 0; i < counts_.size(); ++i) {
      size_t at = i % kChunk, there = std::min(kChunk, counts_.size() - i);
      if (at == 0) device_.read(chunk.data(), chunks_[i / kChunk].data(), bytes_of(there));
      result.push_back(findings_of(chunk[at], counts_[i]));
    }
    counts_.clear();
    return result;
  }

 private:
  static constexpr size_t kChunk = 256;
  static int64_t bytes_of(size_t tensors) { return static_cast<int64_t>(tensors * sizeof(Found)); }

  // Where the next tensor's findings are left.
  Found* next() {
    size_t chunk = counts_.size() / kChunk, at = counts_.size() % kChunk;
    if (chunk == chunks_.size()) chunks_.emplace_back(device_, bytes_of(kChunk));
    std::byte* begin = chunks_[chunk].data();
    if (at == 0) {
      check(cudaMemsetAsync(begin, 0, kChunk * sizeof(Found), stream()), "measuring tensors");
    }
    return reinterpret_cast<Found*>(begin) + at;
  }

  const Device& device_;
  DeviceBytes parts_;  // of the tensor that is looked at
  std::vector<DeviceBytes> chunks_;
  std::vector<int64_t> counts_;  // numbers of each tensor
};

}  // namespace

std::unique_ptr<TensorMeter> make_meter(const Device& device) {
  return std::make_unique<CudaMeter>(device);
}

}  // namespace sigma1::cuda
