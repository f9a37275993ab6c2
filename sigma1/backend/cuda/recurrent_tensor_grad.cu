#include "sigma1/backend/cuda/recurrent_tensor.cuh"

namespace sigma1::cuda {
namespace {

// Piece b has rows first + b / 2 · 2 (upper) and the next (lower) of the weights of gate b % 2.
__device__ void hold_rows(const StateWeights& w, const Lane& lane, Held& left) {
#pragma unroll
  for (int b = 0; b < 4; ++b) {
#pragma unroll
    for (int q = 0; q < kMost / 16; ++q) {
      int row = lane.first() + b / 2 * 2, column = 16 * (q / 2 * 2) + 8 * lane.t + 4 * (q % 2);
      uint2 upper = w.four_at(row, b % 2, column), lower = w.four_at(row + 1, b % 2, column);
      left[b][q][0] = upper.x;
      left[b][q][1] = lower.x;
      left[b][q][2] = upper.y;
      left[b][q][3] = lower.y;
    }
  }
}

__device__ uint32_t magnitude_bits(float value) { return __float_as_uint(value) & 0x7FFFFFFF; }

// Gradients may be too small or too large for fp16: each step multiplies them by a power of two
// that follows from a bound on them, `growth` times the largest number of the step before and of
// dy. NaN and infinity stay what they are.
struct Scaling {
  alignas(16) uint32_t largest[2][kStepWarps];  // magnitudes, as bits, of this step and the next
  alignas(16) uint32_t growths[kStepWarps];

  __device__ static uint32_t of_warps(const uint32_t (&each)[kStepWarps]) {
    static_assert(kStepWarps == 4);
    uint4 of = *reinterpret_cast<const uint4*>(each);
    return max(max(of.x, of.y), max(of.z, of.w));
  }
  // For step `which`, by all threads of a warp.
  __device__ void note(int which, int warp, uint32_t magnitude) {
    uint32_t bits = __reduce_max_sync(~0U, magnitude);
    if (threadIdx.x % 32 == 0) largest[which][warp] = bits;
  }
  // The exponent field of the power of two above which no number of the step is.
  __device__ uint32_t exponent(int which, float growth) const {
    float bound = __uint_as_float(of_warps(largest[which])) * growth;
    return min(max(__float_as_uint(bound) >> 23, 30U), 253U);
  }
};

// A state's gradient is at most this times what the step after had at most: Σ|w| of a row, and
// what does not pass through weights.
template <class Element>
__device__ void note_growth(const Held& left, const Lane& lane, Scaling& scaling) {
  float sums[4] = {};
#pragma unroll
  for (int b = 0; b < 4; ++b) {
#pragma unroll
    for (int q = 0; q < kMost / 16; ++q) {
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float& sum = sums[b / 2 * 2 + r % 2];
        sum += fabsf(Split<Element>::number(left[b][q][r] & 0xFFFF));
        sum += fabsf(Split<Element>::number(left[b][q][r] >> 16));
      }
    }
  }
  uint32_t largest = 0;
  for (float sum : sums) {
    sum += __shfl_xor_sync(~0U, sum, 1);
    sum += __shfl_xor_sync(~0U, sum, 2);
    largest = max(largest, magnitude_bits(sum));
  }
  uint32_t bits = __reduce_max_sync(~0U, largest);
  if (threadIdx.x % 32 == 0) scaling.growths[lane.warp] = bits;
}

// What a step back needs of one number of the state; zeros behind the first step.
template <class Element, bool kSame>
struct Ahead {
  const float *gates, *before;
  int64_t dy;
  int left;  // steps that are not loaded
  StepBack of[kAhead];

  __device__ Ahead(const RecurrentSteps& s, int64_t row, int j)
      : gates(s.gates + s.gates_at(row, s.time - 1) + j),
        before(s.operands + s.operand_at(row, s.time - 1) + j),
        dy((row * s.time + s.time - 1) * s.h + j),
        left(j < s.h ? s.time : 0) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) load(s, i);
  }
  __device__ void load(const RecurrentSteps& s, int i) {
    of[i] = {};
    if (left > 0) {
      of[i] = {gates[0], gates[s.h], *before, load_number<Element, kSame>(s.dy, dy)};
    }
    --left;
    gates -= 2 * s.h;
    before -= s.n_in + s.h;
    dy -= s.h;
  }
};

// From the gradient of a state to those of its gates and of the state before.
struct Slopes {
  float u, c, kept;

  __device__ explicit Slopes(const StepBack& of)
      : u((of.c - of.before) * of.u * (1 - of.u)), c(of.u * (1 - of.c * of.c)), kept(1 - of.u) {}
};

// The power of two by which a step's gradients are multiplied, and its inverse.
struct Scale {
  float value = 1, inverse = 1;
};

__device__ Scale scale_of(uint32_t exponent) {
  return {__uint_as_float((254 - exponent) << 23), __uint_as_float(exponent << 23)};
}

template <class Element, bool kSame>
__global__ void __launch_bounds__(kStepThreads, 1) retreat(RecurrentSteps s) {
  constexpr bool kScaled = std::is_same_v<Element, __half>;
  __shared__ Vectors<Element, 2> vectors;
  __shared__ Scaling scaling;
  Lane lane;
  const int j = static_cast<int>(threadIdx.x), h = s.h;
  const auto row = static_cast<int64_t>(blockIdx.x);
  const bool inside = j < h;
  Ahead<Element, kSame> ahead(s, row, j);
  Held left;
  hold_rows(StateWeights(s), lane, left);
  vectors.clear();
  float growth = 1, dnext = ahead.of[0].dy, dbias_u = 0, dbias_c = 0;
  if constexpr (kScaled) {
    note_growth<Element>(left, lane, scaling);
    scaling.note(0, lane.warp, magnitude_bits(dnext));
  }
  __syncthreads();
  Scale scale;
  if constexpr (kScaled) {
    float sum = __uint_as_float(Scaling::of_warps(scaling.growths));
    growth = 2 + fabsf(s.weight_scale) * sum;
    scale = scale_of(scaling.exponent(0, growth));
  }
  Slopes slopes(ahead.of[0]);
  float* gates = s.gates + s.gates_at(row, s.time - 1) + j;
  for (int n0 = 0; n0 < s.time; n0 += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (n0 + i >= s.time) break;
      const StepBack& next = ahead.of[(i + 1) % kAhead];
      float scaled = dnext * scale.value;
      vectors.write(i % 2, j, scaled * slopes.u);
      vectors.write(i % 2, kMost + j, scaled * slopes.c);
      if constexpr (kScaled) {
        scaling.note((i + 1) % 2, lane.warp, max(magnitude_bits(dnext), magnitude_bits(next.dy)));
      }
      __syncthreads();
      Right<2> right;
      read_vector(vectors, i % 2, lane, right);
      float du = dnext * slopes.u, dc = dnext * slopes.c, kept = 0, back = 0;
      if (inside) {
        gates[0] = du;
        gates[h] = dc;
      }
      gates -= 2 * h;
      ahead.load(s, i);
      Sums sums;
      multiply_parts<Element, 2>(left, right, sums, [&](int q) {
        if (q == 0) {
          dbias_u += du;
          dbias_c += dc;
          kept = fmaf(dnext, slopes.kept, next.dy);
          back = s.weight_scale * scale.inverse;
        } else if (q == 1) {
          slopes = Slopes(next);
        } else if (kScaled && q == 2) {
          scale = scale_of(scaling.exponent((i + 1) % 2, growth));
        }
      });
      float of[4];
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        of[b] =
            joined<Element>(sums[b / 2 * 2], b % 2) + joined<Element>(sums[b / 2 * 2 + 1], b % 2);
      }
      dnext = fmaf(back, own<Element>(of, lane.t), kept);
    }
  }
  if (!inside) return;
  s.dbias[row * 2 * h + j] = dbias_u;
  s.dbias[row * 2 * h + h + j] = dbias_c;
  s.dstate[row * h + j] = dnext;  // behind the first step is no dy
}

template <class Element>
void launch_retreat(const RecurrentSteps& steps) {
  bool is_same = steps.dy.type == steps.w.type && steps.dy.scale == nullptr;
  auto kernel = is_same ? retreat<Element, true> : retreat<Element, false>;
  kernel<<<static_cast<unsigned>(steps.batch), kStepThreads, 0, stream()>>>(steps);
  check(cudaGetLastError(), "recurrent gradient");
}

}  // namespace

void tensor_retreat(const RecurrentSteps& steps) {
  steps.w.type == Type::fp16 ? launch_retreat<__half>(steps) : launch_retreat<__nv_bfloat16>(steps);
}

}  // namespace sigma1::cuda
