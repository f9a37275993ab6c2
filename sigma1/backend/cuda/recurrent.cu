// The recurrent highway layer. What x gives to all gates is one product; then one block goes
// through time for each sample, its state in shared memory, and back for the gradient. The
// gradients of operands and weights are again products over all steps at once.
#include "sigma1/ops/recurrent.h"

#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {
namespace {

constexpr int kStepThreads = 1024;

struct Dims {
  int batch, time, n_in, h;
  float weight_scale;

  explicit Dims(const Launch& launch)
      : batch(static_cast<int>(launch.in(0).shape[0])),
        time(static_cast<int>(launch.in(0).shape[1])),
        n_in(static_cast<int>(launch.in(0).shape[2])),
        h(static_cast<int>(launch.in(3).shape[0])),
        weight_scale(static_cast<float>(launch.attr<double>("weight_scale"))) {}

  __host__ __device__ int64_t state_at(int64_t row, int64_t t) const {
    return (row * (time + 1) + t) * h;
  }
  __host__ __device__ int64_t gates_at(int64_t row, int64_t t) const {
    return (row * time + t) * 2 * h;
  }
  Product weight_product() const {
    return Product::of(1, int64_t{n_in} + h, 2 * int64_t{h}, int64_t{batch} * time).in_chunks();
  }
};

// Arrays in the workspace, counted first and placed later.
struct Plan {
  Dims dims;
  Product weight_product;
  float* begin;
  int64_t floats = 0;
  float* gates;          // [batch, time, 2, h]
  float* state_weights;  // [h, 2, h]
  // Of the gradient:
  float* states = nullptr;                    // [batch, time + 1, h], the initial one first
  float* transposed = nullptr;                // [2, h, h], of the state's weights
  float *dbias = nullptr, *dstate = nullptr;  // [batch, 2, h] and [batch, h]
  float* dweights = nullptr;                  // [chunks, n_in + h, 2, h]

  explicit Plan(const Launch& launch)
      : dims(launch),
        weight_product(dims.weight_product()),
        begin(reinterpret_cast<float*>(launch.workspace.data())) {
    int64_t batch = dims.batch, time = dims.time, h = dims.h;
    gates = room(batch * time * 2 * h);
    state_weights = room(2 * h * h);
    if (launch.inputs.size() < 5) return;
    states = room(batch * (time + 1) * h);
    transposed = room(2 * h * h);
    dbias = room(batch * 2 * h);
    dstate = room(batch * h);
    dweights = room(weight_product.chunks * launch.out(1).count());
  }

 private:
  float* room(int64_t count) {
    constexpr int64_t kAlignment = 16;
    float* at = begin == nullptr ? nullptr : begin + floats;
    floats += ceil_div(count, kAlignment) * kAlignment;
    return at;
  }
};

int64_t workspace(const Launch& launch) {
  return Plan(launch).floats * static_cast<int64_t>(sizeof(float));
}

// A step's product of one row, vector[depth] · matrix[depth, columns], into parts[p][columns]: sums
// over equal pieces of the depth, as many as give every thread one where columns are few.
__host__ __device__ constexpr int part_count(int columns) {
  return columns >= kStepThreads ? 1 : kStepThreads / columns;
}

__device__ void multiply_row(const float* vector, int depth, const float* matrix, int columns,
                             float* parts) {
  int count = part_count(columns), length = (depth + count - 1) / count;
  for (int i = static_cast<int>(threadIdx.x); i < count * columns; i += kStepThreads) {
    int column = i % columns, first = i / columns * length, last = min(depth, first + length);
    float sum = 0;
#pragma unroll 8
    for (int k = first; k < last; ++k) sum += vector[k] * matrix[int64_t{k} * columns + column];
    parts[i] = sum;
  }
}

__device__ float sum_parts(const float* parts, int columns, int column) {
  float sum = 0;
  for (int p = 0; p < part_count(columns); ++p) sum += parts[p * columns + column];
  return sum;
}

// The weights as fp32: the state's as they lie, and transposed where there is room for that.
__global__ void unpack_weights(Dims dims, View w, float* state_weights, float* transposed) {
  int64_t columns = 2 * int64_t{dims.h}, count = columns * dims.h;
  int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    float value = load(w, dims.n_in * columns + i);
    state_weights[i] = value;
    if (transposed != nullptr) transposed[i % columns * dims.h + i / columns] = value;
  }
}

struct StepViews {
  View bias, initial, y;
  float factor;
};

int advance_floats(const Dims& d) { return d.h + part_count(2 * d.h) * 2 * d.h; }

// One sample through all steps. Where states are kept, for the gradient, the gates give way to u
// and c and nothing is stored; else states are stored as the result.
__global__ void __launch_bounds__(kStepThreads, 1)
    advance(Dims dims, const float* weights, float* gates, float* states, StepViews views) {
  extern __shared__ float shared[];
  int h = dims.h, columns = 2 * h;
  float *state = shared, *parts = state + h;
  auto row = static_cast<int64_t>(blockIdx.x);
  for (int j = static_cast<int>(threadIdx.x); j < h; j += kStepThreads) {
    state[j] = load(views.initial, j);
    if (states != nullptr) states[dims.state_at(row, 0) + j] = state[j];
  }
  for (int t = 0; t < dims.time; ++t) {
    __syncthreads();
    multiply_row(state, h, weights, columns, parts);
    __syncthreads();
    float* step = gates + dims.gates_at(row, t);
    for (int j = static_cast<int>(threadIdx.x); j < h; j += kStepThreads) {
      float a_u = step[j] + dims.weight_scale * sum_parts(parts, columns, j);
      float a_c = step[h + j] + dims.weight_scale * sum_parts(parts, columns, h + j);
      float u = 1 / (1 + expf(-(a_u + (load(views.bias, j) - 1))));
      float c = tanhf(a_c + load(views.bias, h + j)), before = state[j];
      state[j] = u * (c - before) + before;
      if (states == nullptr) {
        store(views.y, (row * dims.time + t) * h + j, state[j] * views.factor);
      } else {
        step[j] = u;
        step[h + j] = c;
        states[dims.state_at(row, t + 1) + j] = state[j];
      }
    }
  }
}

int retreat_floats(const Dims& d) { return 5 * d.h + part_count(d.h) * d.h; }

// One sample back through all steps: the gates give way to the gradients of their pre-activations.
__global__ void __launch_bounds__(kStepThreads, 1)
    retreat(Dims dims, const float* transposed, const float* states, View dy, float* gates,
            float* dbias_rows, float* dstate_rows) {
  extern __shared__ float shared[];
  int h = dims.h;
  float *dstate = shared, *dgates = dstate + h, *dbias = dgates + 2 * h, *parts = dbias + 2 * h;
  auto row = static_cast<int64_t>(blockIdx.x);
  int first = static_cast<int>(threadIdx.x);
  for (int j = first; j < h; j += kStepThreads) dstate[j] = dbias[j] = dbias[h + j] = 0;
  for (int t = dims.time - 1; t >= 0; --t) {
    float* step = gates + dims.gates_at(row, t);
    for (int j = first; j < h; j += kStepThreads) {
      float u = step[j], c = step[h + j], before = states[dims.state_at(row, t) + j];
      float dnext = dstate[j] + load(dy, (row * dims.time + t) * h + j);
      float du = dnext * (c - before) * u * (1 - u), dc = dnext * u * (1 - c * c);
      step[j] = dgates[j] = du;
      step[h + j] = dgates[h + j] = dc;
      dbias[j] += du;
      dbias[h + j] += dc;
      dstate[j] = dnext * (1 - u);
    }
    __syncthreads();
    multiply_row(dgates, 2 * h, transposed, h, parts);
    __syncthreads();
    for (int j = first; j < h; j += kStepThreads) {
      dstate[j] += dims.weight_scale * sum_parts(parts, h, j);
    }
  }
  for (int j = first; j < h; j += kStepThreads) {
    dbias_rows[row * 2 * h + j] = dbias[j];
    dbias_rows[row * 2 * h + h + j] = dbias[h + j];
    dstate_rows[row * h + j] = dstate[j];
  }
}

// A matrix as it lies, or transposed: element (row, column) of what is multiplied at
// row · row_step + column · column_step.
template <bool kAlong>
struct Matrix {
  static constexpr bool kAlongSum = kAlong;
  View of;
  int64_t row_step, column_step;

  __device__ float operator()(int, int row, int column) const {
    return load(of, row * row_step + column * column_step);
  }
};

// [x_t ; state before it] of every step, transposed.
struct Operands {
  static constexpr bool kAlongSum = false;
  Dims dims;
  View x;
  const float* states;

  __device__ float operator()(int, int row, int step) const {
    if (row < dims.n_in) return load(x, int64_t{step} * dims.n_in + row);
    return states[dims.state_at(step / dims.time, step % dims.time) + row - dims.n_in];
  }
};

struct StoreProduct {
  View to;
  int64_t columns, chunk_count;  // of numbers in all rows
  float factor;

  __device__ void operator()(int, int chunk, int row, int column, float sum) const {
    store(to, chunk * chunk_count + row * columns + column, sum * factor);
  }
};

// Of the gates in the workspace, as rows by step.
View gates_view(const Plan& plan) {
  return fp32_view(plan.gates, plan.dims.gates_at(plan.dims.batch, 0));
}

// Gates from x alone, all weights as fp32, and the states.
void go_forward(const Launch& launch, const Plan& plan, const StepViews& views) {
  const Dims& d = plan.dims;
  int64_t columns = 2 * int64_t{d.h};
  View w = view_of(launch.in(1));
  multiply(Product::of(1, int64_t{d.batch} * d.time, columns, d.n_in),
           Matrix<true>{view_of(launch.in(0)), d.n_in, 1}, Matrix<false>{w, columns, 1},
           StoreProduct{gates_view(plan), columns, 0, d.weight_scale});
  unpack_weights<<<blocks_for(columns * d.h), kThreads, 0, stream()>>>(d, w, plan.state_weights,
                                                                       plan.transposed);
  check(cudaGetLastError(), "recurrent weights");
  launch_with_room("recurrent", advance, d.batch, kStepThreads, advance_floats(d), d,
                   plan.state_weights, plan.gates, plan.states, views);
}

void run_recurrent(const Launch& launch) {
  go_forward(
      launch, Plan(launch),
      {view_of(launch.in(2)), view_of(launch.in(3)), view_of(launch.out()), launch.factor()});
}

void run_recurrent_grad(const Launch& launch) {
  Plan plan(launch);
  const Dims& d = plan.dims;
  int64_t columns = 2 * int64_t{d.h}, weights = launch.out(1).count();
  View x = view_of(launch.in(0)), w = view_of(launch.in(1)), dgates = gates_view(plan);
  go_forward(launch, plan, {view_of(launch.in(2)), view_of(launch.in(3)), View{}, 0});
  launch_with_room("recurrent gradient", retreat, d.batch, kStepThreads, retreat_floats(d), d,
                   plan.transposed, plan.states, view_of(launch.in(4)), plan.gates, plan.dbias,
                   plan.dstate);
  multiply(Product::of(1, int64_t{d.batch} * d.time, d.n_in, columns),
           Matrix<true>{dgates, columns, 1}, Matrix<true>{w, 1, columns},
           StoreProduct{view_of(launch.out(0)), d.n_in, 0, d.weight_scale * launch.factor(0)});
  multiply(plan.weight_product, Operands{d, x, plan.states}, Matrix<false>{dgates, columns, 1},
           StoreProduct{fp32_view(plan.dweights, plan.weight_product.chunks * weights), columns,
                        weights, 1});
  store_sums(plan.dweights, plan.weight_product.chunks, weights, view_of(launch.out(1)),
             d.weight_scale * launch.factor(1));
  store_sums(plan.dbias, d.batch, columns, view_of(launch.out(2)), launch.factor(2));
  store_sums(plan.dstate, d.batch, d.h, view_of(launch.out(3)), launch.factor(3));
}

constexpr Kernel kKernels[] = {
    {&recurrent_highway_op, run_recurrent, workspace},
    {&recurrent_highway_grad_op, run_recurrent_grad, workspace},
};

}  // namespace

std::span<const Kernel> recurrent_kernels() { return kKernels; }

}  // namespace sigma1::cuda
