// Steps of the recurrence in fp32 arithmetic. Where a thread's weights are few it keeps them in
// registers for all steps.
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/recurrent_steps.cuh"

namespace sigma1::cuda {
namespace {

constexpr int kHeld = 64;  // weights of a thread

// Registers for so many weights leave room for half as many threads.
template <bool held>
inline constexpr int kStepThreads = held ? 512 : 1024;

// A step's product of one row, vector[depth] · matrix[depth, columns]: sums over equal pieces of
// the depth, as many as give every thread one where columns are few.
struct RowShape {
  int depth, columns, count, length;

  __host__ __device__ RowShape(int d, int c, int threads)
      : depth(d),
        columns(c),
        count(c >= threads ? 1 : threads / c),
        length((d + count - 1) / count) {}

  bool can_be_held() const {
    return columns <= kStepThreads<true> && length <= kHeld && length % 4 == 0;
  }
  // Floats of a vector that is read by fours, with zeros behind its end.
  __host__ __device__ int padded() const { return (max(count * length, depth) + 3) / 4 * 4; }
  __host__ __device__ int parts() const { return count * columns; }
};

template <bool held>
struct RowProduct {
  RowShape shape;
  const float* matrix;
  float weights[held ? kHeld : 1];

  __device__ RowProduct(const RowShape& of, const float* from) : shape(of), matrix(from) {
    if constexpr (held) {
      int thread = static_cast<int>(threadIdx.x), first = thread / shape.columns * shape.length;
#pragma unroll
      for (int k = 0; k < kHeld; ++k) {
        bool inside = k < shape.length && first + k < shape.depth && thread < shape.parts();
        weights[k] =
            inside ? matrix[int64_t{first + k} * shape.columns + thread % shape.columns] : 0;
      }
    }
  }

  // Into parts[count][columns].
  __device__ void operator()(const float* vector, float* parts) const {
    for (int i = static_cast<int>(threadIdx.x); i < shape.parts(); i += kStepThreads<held>) {
      int first = i / shape.columns * shape.length;
      parts[i] = held ? held_sum(vector + first) : read_sum(vector, first, i % shape.columns);
    }
  }

 private:
  __device__ float held_sum(const float* vector) const {
    float sums[4] = {};
    if constexpr (held) {
#pragma unroll
      for (int k = 0; k < kHeld; k += 4) {
        if (k >= shape.length) break;
        float4 four = *reinterpret_cast<const float4*>(vector + k);
        sums[0] = fmaf(four.x, weights[k], sums[0]);
        sums[1] = fmaf(four.y, weights[k + 1], sums[1]);
        sums[2] = fmaf(four.z, weights[k + 2], sums[2]);
        sums[3] = fmaf(four.w, weights[k + 3], sums[3]);
      }
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  __device__ float read_sum(const float* vector, int first, int column) const {
    int last = min(shape.depth, first + shape.length);
    float sum = 0;
#pragma unroll 8
    for (int k = first; k < last; ++k) {
      sum = fmaf(vector[k], matrix[int64_t{k} * shape.columns + column], sum);
    }
    return sum;
  }
};

__device__ float sum_parts(const RowShape& shape, const float* parts, int column) {
  float sum = 0;
  for (int p = 0; p < shape.count; ++p) sum += parts[p * shape.columns + column];
  return sum;
}

// Calls body(j) for this thread's numbers of the state.
template <class Body>
__device__ void for_states(int h, Body body) {
  int step = static_cast<int>(blockDim.x);
  for (int j = static_cast<int>(threadIdx.x); j < h; j += step) body(j);
}

__device__ void fill_zeros(float* to, int count) {
  for_states(count, [&](int i) { to[i] = 0; });
}

// The state's weights as fp32: as they lie, and transposed behind that where it is asked for.
__global__ void unpack_weights(RecurrentSteps s) {
  int64_t columns = 2 * int64_t{s.h}, count = columns * s.h;
  int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    float value = load(s.w, s.n_in * columns + i);
    s.weights[i] = value;
    if (s.operands != nullptr) s.weights[count + i % columns * s.h + i / columns] = value;
  }
}

template <bool held>
__global__ void __launch_bounds__(kStepThreads<held>, 1) advance(RecurrentSteps s) {
  extern __shared__ __align__(16) float shared[];
  const int h = s.h, first = static_cast<int>(threadIdx.x);
  const RowShape shape(h, 2 * h, kStepThreads<held>);
  const RowProduct<held> product(shape, s.weights);
  float *state = shared, *parts = state + shape.padded();
  const auto row = static_cast<int64_t>(blockIdx.x);
  fill_zeros(state, shape.padded());
  __syncthreads();
  for_states(h, [&](int j) { state[j] = load(s.initial, j); });
  for (int t = 0; t < s.time; ++t) {
    float* step = s.gates + s.gates_at(row, t);
    // On their way while the product is computed.
    float of_u = first < h ? step[first] : 0, of_c = first < h ? step[h + first] : 0;
    __syncthreads();
    product(state, parts);
    __syncthreads();
    for_states(h, [&](int j) {
      float a_u = j == first ? of_u : step[j], a_c = j == first ? of_c : step[h + j];
      a_u += s.weight_scale * sum_parts(shape, parts, j);
      a_c += s.weight_scale * sum_parts(shape, parts, h + j);
      float u = 1 / (1 + expf(-(a_u + (load(s.bias, j) - 1))));
      float c = tanhf(a_c + load(s.bias, h + j)), before = state[j];
      state[j] = u * (c - before) + before;
      if (s.operands == nullptr) {
        store(s.y, (row * s.time + t) * h + j, state[j] * s.factor);
      } else {
        step[j] = u;
        step[h + j] = c;
        s.operands[s.operand_at(row, t) + j] = before;
      }
    });
  }
}

template <bool held>
__global__ void __launch_bounds__(kStepThreads<held>, 1) retreat(RecurrentSteps s) {
  extern __shared__ __align__(16) float shared[];
  const int h = s.h, first = static_cast<int>(threadIdx.x);
  const RowShape shape(2 * h, h, kStepThreads<held>);
  const RowProduct<held> product(shape, s.weights + 2 * int64_t{h} * h);
  float *dgates = shared, *dstate = dgates + shape.padded(), *dbias = dstate + h;
  float* parts = dbias + 2 * h;
  const auto row = static_cast<int64_t>(blockIdx.x);
  fill_zeros(shared, shape.padded() + 3 * h);
  StepBack ahead = {};
  if (first < h) ahead.load_from(s, row, s.time - 1, first);
  __syncthreads();
  for (int t = s.time - 1; t >= 0; --t) {
    float* step = s.gates + s.gates_at(row, t);
    for_states(h, [&](int j) {
      StepBack of = ahead;
      if (j != first) of.load_from(s, row, t, j);
      float u = of.u, c = of.c, before = of.before, dnext = dstate[j] + of.dy;
      float du = dnext * (c - before) * u * (1 - u), dc = dnext * u * (1 - c * c);
      step[j] = dgates[j] = du;
      step[h + j] = dgates[h + j] = dc;
      dbias[j] += du;
      dbias[h + j] += dc;
      dstate[j] = dnext * (1 - u);
    });
    // On its way while the product is computed.
    if (first < h && t > 0) ahead.load_from(s, row, t - 1, first);
    __syncthreads();
    product(dgates, parts);
    __syncthreads();
    for_states(h, [&](int j) { dstate[j] += s.weight_scale * sum_parts(shape, parts, j); });
  }
  for_states(h, [&](int j) {
    s.dbias[row * 2 * h + j] = dbias[j];
    s.dbias[row * 2 * h + h + j] = dbias[h + j];
    s.dstate[row * h + j] = dstate[j];
  });
}

}  // namespace

void plain_advance(const RecurrentSteps& s) {
  unpack_weights<<<blocks_for(2 * int64_t{s.h} * s.h), kThreads, 0, stream()>>>(s);
  check(cudaGetLastError(), "recurrent weights");
  RowShape shape(s.h, 2 * s.h, kStepThreads<true>), wide(s.h, 2 * s.h, kStepThreads<false>);
  if (shape.can_be_held()) {
    launch_with_room("recurrent", advance<true>, s.batch, kStepThreads<true>,
                     shape.padded() + shape.parts(), s);
  } else {
    launch_with_room("recurrent", advance<false>, s.batch, kStepThreads<false>,
                     wide.padded() + wide.parts(), s);
  }
}

void plain_retreat(const RecurrentSteps& s) {
  RowShape shape(2 * s.h, s.h, kStepThreads<true>), wide(2 * s.h, s.h, kStepThreads<false>);
  if (shape.can_be_held()) {
    launch_with_room("recurrent gradient", retreat<true>, s.batch, kStepThreads<true>,
                     shape.padded() + 3 * s.h + shape.parts(), s);
  } else {
    launch_with_room("recurrent gradient", retreat<false>, s.batch, kStepThreads<false>,
                     wide.padded() + 3 * s.h + wide.parts(), s);
  }
}

}  // namespace sigma1::cuda
