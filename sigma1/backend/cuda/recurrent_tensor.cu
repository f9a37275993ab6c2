#include "sigma1/backend/cuda/recurrent_tensor.cuh"

namespace sigma1::cuda {
namespace {

// Four numbers of the state in each piece b, first + b: u in its upper rows, c in the lower.
__device__ void hold_columns(const StateWeights& w, const Lane& lane, Held& left) {
#pragma unroll
  for (int q = 0; q < kMost / 16; ++q) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      int k = 16 * (q / 2 * 2) + 8 * lane.t + 4 * (q % 2) + r / 2 * 2, gate = r % 2;
      uint2 upper = w.four_at(k, gate, lane.first()), lower = w.four_at(k + 1, gate, lane.first());
      left[0][q][r] = __byte_perm(upper.x, lower.x, 0x5410);
      left[1][q][r] = __byte_perm(upper.x, lower.x, 0x7632);
      left[2][q][r] = __byte_perm(upper.y, lower.y, 0x5410);
      left[3][q][r] = __byte_perm(upper.y, lower.y, 0x7632);
    }
  }
}

// Where the states go: to the gradient's operands, or to y, of the weights' type or of another.
enum class Result { operands, same, other };

template <class Element>
__device__ void store_same(const View& to, int64_t i, float value) {
  constexpr float kLargest = std::is_same_v<Element, __half> ? 65504 : 0x1.fep127f;
  if (to.saturates && fabsf(value) > kLargest) value = copysignf(kLargest, value);
  static_cast<Element*>(to.data)[i] = static_cast<Element>(value);
}

// One number of the state, through time.
struct Advancing {
  float state = 0;
  float bias_u, bias_c;
  float slope_u, slope_c;  // from a sum to the exponents of two below
  float ahead[kAhead][2] = {};
  float u = 0, c = 0;

  static constexpr float kOfU = -1.44269504F, kOfC = 2 * 1.44269504F;  // log2 e

  // u = 1 / (1 + 2^exponent), c = 1 - 2 / (1 + 2^exponent)
  __device__ void step(int i, float sum_u, float sum_c) {
    float of_u = kOfU * (ahead[i][0] + bias_u), of_c = kOfC * (ahead[i][1] + bias_c);
    float rest = 1 - state;
    u = fast_inverse(1 + fast_exp2(fmaf(slope_u, sum_u, of_u)));
    float twice = 2 * fast_inverse(1 + fast_exp2(fmaf(slope_c, sum_c, of_c)));
    c = 1 - twice;
    state = fmaf(u, rest - twice, state);
  }
};

template <class Element, Result kResult>
__global__ void __launch_bounds__(kStepThreads, 1) advance(RecurrentSteps s) {
  __shared__ Vectors<Element, 1> vectors;
  Lane lane;
  const int j = static_cast<int>(threadIdx.x), h = s.h;
  const auto row = static_cast<int64_t>(blockIdx.x);
  const bool inside = j < h;
  Advancing number;
  number.bias_u = inside ? load(s.bias, j) - 1 : 0;
  number.bias_c = inside ? load(s.bias, h + j) : 0;
  number.slope_u = Advancing::kOfU * s.weight_scale;
  number.slope_c = Advancing::kOfC * s.weight_scale;
  float* gates = s.gates + s.gates_at(row, 0) + j;
  float* before = kResult == Result::operands ? s.operands + s.operand_at(row, 0) + j : nullptr;
  int64_t y_at = row * s.time * h + j;
#pragma unroll
  for (int i = 0; i < kAhead; ++i) {
    if (!inside || i >= s.time) continue;
    number.ahead[i][0] = gates[int64_t{2} * i * h];
    number.ahead[i][1] = gates[int64_t{2} * i * h + h];
  }
  Held left;
  hold_columns(StateWeights(s), lane, left);
  vectors.clear();
  __syncthreads();
  if (inside) number.state = load(s.initial, j);
  vectors.write(0, j, number.state);
  __syncthreads();
  Right<1> right;
  read_vector(vectors, 0, lane, right);
  for (int t0 = 0; t0 < s.time; t0 += kAhead) {
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (t0 + i >= s.time) break;
      Sums sums;
      multiply_parts<Element, 1>(left, right, sums, [](int) {});
      float of_u[4], of_c[4], old = number.state;
#pragma unroll
      for (int b = 0; b < 4; ++b) {
        of_u[b] = joined<Element>(sums[b], 0);
        of_c[b] = joined<Element>(sums[b], 1);
      }
      number.step(i, own<Element>(of_u, lane.t), own<Element>(of_c, lane.t));
      vectors.write((i + 1) % 2, j, number.state);
      __syncthreads();
      read_vector(vectors, (i + 1) % 2, lane, right);
      // Here it does not keep the others waiting.
      if (inside) {
        if constexpr (kResult == Result::operands) {
          gates[0] = number.u;
          gates[h] = number.c;
          *before = old;
          before += s.n_in + h;
        } else if constexpr (kResult == Result::same) {
          store_same<Element>(s.y, y_at, number.state * s.factor);
        } else {
          store(s.y, y_at, number.state * s.factor);
        }
        if (t0 + i + kAhead < s.time) {
          number.ahead[i][0] = gates[int64_t{2} * kAhead * h];
          number.ahead[i][1] = gates[int64_t{2} * kAhead * h + h];
        }
      }
      gates += 2 * h;
      y_at += h;
    }
  }
}

template <class Element>
void launch_advance(const RecurrentSteps& steps) {
  auto kernel = steps.operands != nullptr      ? advance<Element, Result::operands>
                : steps.y.type == steps.w.type ? advance<Element, Result::same>
                                               : advance<Element, Result::other>;
  kernel<<<static_cast<unsigned>(steps.batch), kStepThreads, 0, stream()>>>(steps);
  check(cudaGetLastError(), "recurrent");
}

}  // namespace

bool suits_tensor_cores(const RecurrentSteps& steps) {
  bool has_type = steps.w.type == Type::fp16 || steps.w.type == Type::bf16;
  // The parts of a state hold what its format does, and no more.
  return has_type && steps.w.scale == nullptr && steps.initial.type == steps.w.type &&
         steps.initial.scale == nullptr && steps.h <= kMost;
}

void tensor_advance(const RecurrentSteps& steps) {
  steps.w.type == Type::fp16 ? launch_advance<__half>(steps) : launch_advance<__nv_bfloat16>(steps);
}

}  // namespace sigma1::cuda
