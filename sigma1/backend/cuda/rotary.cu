// Vectors turned by their positions. A thread has one pair's angle and turns that pair in several
// heads and sequences, because the angle, in double, costs more than the turning.
#include "sigma1/backend/cuda/four.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/ops/positions.h"

namespace sigma1::cuda {
namespace {

struct Turning {
  View x;
  Output y;
  int64_t time, heads, half;  // half: pairs of a head
  int64_t copies;             // sequences × heads: all share the angles
  int64_t share;              // of copies, for a thread
  double base, sign;
  float factor;
};

__global__ void turn(const __grid_constant__ Turning p) {
  int64_t angles = p.time * p.half, shares = (p.copies + p.share - 1) / p.share;
  int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < angles * shares;
       i += stride) {
    int64_t j = i % p.half, t = i / p.half % p.time, first = i / angles * p.share;
    // In double: an angle grows with the position, and fp32 would lose the digits behind the point.
    double along = static_cast<double>(j) / static_cast<double>(p.half), sine, cosine;
    ::sincos(static_cast<double>(t) * ::pow(p.base, -along), &sine, &cosine);
    float c = static_cast<float>(cosine), s = static_cast<float>(p.sign * sine);
    for (int64_t copy = first; copy < min(first + p.share, p.copies); ++copy) {
      int64_t sequence = copy / p.heads, head = copy - sequence * p.heads;
      int64_t at = ((sequence * p.time + t) * p.heads + head) * 2 * p.half + j;
      float a = load(p.x, at), b = load(p.x, at + p.half);
      write_one(p.y, at, p.factor * (a * c - b * s));
      write_one(p.y, at + p.half, p.factor * (b * c + a * s));
    }
  }
}

void run_rotary(const Launch& launch) {
  constexpr int64_t kShare = 16;
  const Shape& shape = launch.in(0).shape;
  auto heads = launch.attr<int64_t>("heads");
  Turning p{view_of(launch.in(0)),
            output_of(launch),
            shape[1],
            heads,
            shape[2] / heads / 2,
            shape[0] * heads,
            kShare,
            launch.attr<double>("base"),
            launch.attr<bool>("inverse") ? -1.0 : 1.0,
            launch.factor()};
  int64_t shares = (p.copies + kShare - 1) / kShare;
  turn<<<blocks_for(p.time * p.half * shares), kThreads, 0, stream()>>>(p);
  check(cudaGetLastError(), "rotary");
}

// A thread has read both numbers of a pair before it writes them.
bool anywhere(size_t, size_t) { return true; }

constexpr Kernel kKernels[] = {{&rotary_op, run_rotary, nullptr, anywhere}};

}  // namespace

std::span<const Kernel> rotary_kernels() { return kKernels; }

}  // namespace sigma1::cuda
