#include "sigma1/backend/cuda/tensor_stats.cuh"

#include <algorithm>
#include <bit>
#include <limits>

#include "sigma1/backend/cuda/reduce.cuh"
#include "sigma1/backend/device.h"

namespace sigma1::cuda {
namespace {

constexpr unsigned kMagnitude = 0x7fffffff, kInfinity = 0x7f800000;
constexpr int kStatsThreads = 256, kFields = 256, kTables = 4;
constexpr int64_t kMostBlocks = 1024;

// What a block found.
struct PartStats {
  long long zeros, nonfinite;
  double sum, sum_squares;
  unsigned smallest, largest;  // magnitudes of the finite that are not zero
  unsigned fields[kFields];    // numbers by fp32's exponent field
};

struct PartLoss {
  long long to_zero, subnormal, beyond;
};

// As fp32's bits, which compare like the numbers.
struct LimitBits {
  unsigned zero_up_to, normal_from, finite_up_to;
};

struct Smaller {
  __device__ unsigned operator()(unsigned a, unsigned b) const { return min(a, b); }
};
struct LargerWord {
  __device__ unsigned operator()(unsigned a, unsigned b) const { return max(a, b); }
};

template <class Visit>
__device__ void for_each_number(const View& x, Visit visit) {
  int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < x.count; i += step)
    visit(load(x, i));
}

__global__ void __launch_bounds__(kStatsThreads) find_stats(View x, PartStats* parts) {
  // Neighbours often share a binade: warps take turns on several tables.
  __shared__ unsigned tables[kTables][kFields];
  for (int i = static_cast<int>(threadIdx.x); i < kTables * kFields; i += kStatsThreads)
    tables[i / kFields][i % kFields] = 0;
  __syncthreads();
  unsigned* table = tables[threadIdx.x / 32 % kTables];
  long long zeros = 0, nonfinite = 0;
  double sum = 0, sum_squares = 0;
  unsigned smallest = kMagnitude, largest = 0;
  for_each_number(x, [&](float value) {
    unsigned magnitude = __float_as_uint(value) & kMagnitude;
    atomicAdd(table + (magnitude >> 23), 1u);
    zeros += magnitude == 0;
    nonfinite += magnitude >= kInfinity;
    if (magnitude == 0 || magnitude >= kInfinity) return;
    sum += value;
    sum_squares += static_cast<double>(value) * value;
    smallest = min(smallest, magnitude);
    largest = max(largest, magnitude);
  });
  PartStats& part = parts[blockIdx.x];
  zeros = block_reduce(zeros, Plus());
  nonfinite = block_reduce(nonfinite, Plus());
  sum = block_sum(sum);
  sum_squares = block_sum(sum_squares);
  smallest = block_reduce(smallest, Smaller());
  largest = block_reduce(largest, LargerWord());
  if (threadIdx.x == 0) {
    part.zeros = zeros;
    part.nonfinite = nonfinite;
    part.sum = sum;
    part.sum_squares = sum_squares;
    part.smallest = smallest;
    part.largest = largest;
  }
  // The reductions above have synchronised all threads behind their last count.
  unsigned numbers = 0;
  for (const auto& each : tables) numbers += each[threadIdx.x];
  part.fields[threadIdx.x] = numbers;
}
static_assert(kStatsThreads == kFields);

__global__ void __launch_bounds__(kStatsThreads)
    find_loss(View x, LimitBits limits, PartLoss* parts) {
  PartLoss found{};
  for_each_number(x, [&](float value) {
    unsigned magnitude = __float_as_uint(value) & kMagnitude;
    bool is_there = magnitude > 0, vanishes = is_there && magnitude <= limits.zero_up_to;
    found.to_zero += vanishes;
    found.subnormal += is_there && !vanishes && magnitude < limits.normal_from;
    found.beyond += magnitude > limits.finite_up_to;
  });
  long long to_zero = block_reduce(found.to_zero, Plus());
  long long subnormal = block_reduce(found.subnormal, Plus());
  long long beyond = block_reduce(found.beyond, Plus());
  if (threadIdx.x == 0) parts[blockIdx.x] = {to_zero, subnormal, beyond};
}

int64_t blocks_for(int64_t count) {
  constexpr int64_t kNumbers = 8 * kStatsThreads;
  return std::clamp<int64_t>((count + kNumbers - 1) / kNumbers, 1, kMostBlocks);
}

// Runs a kernel that leaves one of these for each block.
template <class Part, class Start>
std::vector<Part> find_parts(const Buffer& buffer, Start start) {
  int64_t blocks = blocks_for(buffer.count());
  auto bytes = blocks * static_cast<int64_t>(sizeof(Part));
  DeviceBytes room(*buffer.device, bytes);
  start(static_cast<unsigned>(blocks), reinterpret_cast<Part*>(room.data()));
  check(cudaGetLastError(), "measuring a tensor");
  std::vector<Part> parts(static_cast<size_t>(blocks));
  buffer.device->read(parts.data(), room.data(), bytes);
  return parts;
}

TensorStats stats_of(const PartStats& part) {
  TensorStats stats;
  stats.zeros = part.zeros;
  stats.nonfinite = part.nonfinite;
  stats.sum = part.sum;
  stats.sum_squares = part.sum_squares;
  if (part.smallest <= part.largest) {
    stats.abs_min = std::bit_cast<float>(part.smallest);
    stats.abs_max = std::bit_cast<float>(part.largest);
  }
  for (size_t i = 0; i < stats.binades.size(); ++i) stats.binades[i] = part.fields[i];
  stats.binades[0] -= part.zeros;
  return stats;
}

}  // namespace

TensorStats stats_of(const Buffer& buffer) {
  View x = view_of(buffer, true);
  TensorStats all;
  for (const PartStats& part : find_parts<PartStats>(buffer, [&](unsigned blocks, PartStats*parts) {
         find_stats<<<blocks, kStatsThreads, 0, stream()>>>(x, parts);
       }))
    all.add(stats_of(part));
  all.count = buffer.count();
  return all;
}

FormatLoss loss_of(const Buffer& buffer, const FormatLimits& limits) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  View x = view_of(buffer, true);
  LimitBits bits{std::bit_cast<unsigned>(limits.zero_up_to),
                 std::bit_cast<unsigned>(limits.normal_from),
                 std::bit_cast<unsigned>(std::min(limits.finite_up_to, kLargest))};
  FormatLoss all;
  for (const PartLoss& part : find_parts<PartLoss>(buffer, [&](unsigned blocks, PartLoss*parts) {
         find_loss<<<blocks, kStatsThreads, 0, stream()>>>(x, bits, parts);
       }))
    all.add({part.to_zero, part.subnormal, part.beyond});
  return all;
}

}  // namespace sigma1::cuda
