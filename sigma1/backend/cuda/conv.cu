// Convolution over time and its gradients as products whose factors are gathered from the rows as
// they lie: nothing is copied into columns. A sum runs over taps first, then channels; that of a
// weight over batches, then times.
#include "sigma1/ops/conv.h"

#include <algorithm>

#include "sigma1/backend/cuda/conv_tensor.cuh"
#include "sigma1/backend/cuda/kernel_table.h"
#include "sigma1/backend/cuda/product.cuh"

namespace sigma1::cuda {
namespace {

// ConvDims in the numbers that index arithmetic is fast in.
struct Dims {
  int time, c_in, c_out, stride, dilation, padding, time_out, group_in, group_out;

  explicit Dims(const ConvDims& d)
      : time(static_cast<int>(d.time)),
        c_in(static_cast<int>(d.c_in)),
        c_out(static_cast<int>(d.c_out)),
        stride(static_cast<int>(d.stride)),
        dilation(static_cast<int>(d.dilation)),
        padding(static_cast<int>(d.padding)),
        time_out(static_cast<int>(d.time_out)),
        group_in(static_cast<int>(d.group_in())),
        group_out(static_cast<int>(d.group_out())) {}

  // What a channel of x is to a tap of output row (batch, t): zero before the start.
  __device__ float input(const View& x, int group, int row_y, int tap, int channel) const {
    int batch = row_y / time_out, t = row_y % time_out;
    int at = t * stride + tap * dilation - padding;
    if (at < 0 || at >= time) return 0;
    return load(x, (int64_t{batch} * time + at) * c_in + group * group_in + channel);
  }
  __device__ int64_t at_weight(int group, int tap, int channel, int out) const {
    return (int64_t{tap} * group_in + channel) * c_out + group * group_out + out;
  }
  __device__ int64_t at_output(int group, int row_y, int out) const {
    return int64_t{row_y} * c_out + group * group_out + out;
  }
};

struct Windows {  // x[row of y, (tap, channel)]
  static constexpr bool kAlongSum = true;
  Dims d;
  View x;

  __device__ float operator()(int group, int row, int k) const {
    return d.input(x, group, row, k / d.group_in, k % d.group_in);
  }
};

struct Weights {  // w[(tap, channel), output channel]
  static constexpr bool kAlongSum = false;
  Dims d;
  View w;

  __device__ float operator()(int group, int k, int column) const {
    return load(w, d.at_weight(group, k / d.group_in, k % d.group_in, column));
  }
};

struct StoreOutput {
  Dims d;
  View y, bias;
  bool has_bias;
  float factor;

  __device__ void operator()(int group, int, int row, int column, float sum) const {
    float from = has_bias ? load(bias, group * d.group_out + column) * factor : 0;
    store(y, d.at_output(group, row, column), from + factor * sum);
  }
};

void run_conv1d(const Launch& launch) {
  ConvDims of = conv_dims(launch.in(0).shape, launch.in(1).shape, launch.attributes);
  Dims d(of);
  bool has_bias = launch.inputs.size() == 3;
  View x = view_of(launch.in(0)), w = view_of(launch.in(1)), y = view_of(launch.out());
  View bias = has_bias ? view_of(launch.in(2)) : View{};
  if (suits_tensor_cores(of, x, w)) return tensor_conv1d(of, x, w, bias, y, launch.factor());
  multiply(
      Product::of(of.groups, of.batch * of.time_out, of.group_out(), of.kernel * of.group_in()),
      Windows{d, x}, Weights{d, w}, StoreOutput{d, y, bias, has_bias, launch.factor()});
}

struct Readers {  // dy[row of x, (tap, output channel)], zero where the tap reads it for no output
  static constexpr bool kAlongSum = true;
  Dims d;
  View dy;

  __device__ float operator()(int group, int row, int k) const {
    int tap = k / d.group_out, batch = row / d.time;
    int start = row % d.time + d.padding - tap * d.dilation;
    if (start < 0 || start % d.stride != 0 || start / d.stride >= d.time_out) return 0;
    return load(dy, d.at_output(group, batch * d.time_out + start / d.stride, k % d.group_out));
  }
};

struct TransposedWeights {  // w[(tap, output channel), channel]
  static constexpr bool kAlongSum = true;
  Dims d;
  View w;

  __device__ float operator()(int group, int k, int column) const {
    return load(w, d.at_weight(group, k / d.group_out, column, k % d.group_out));
  }
};

struct StoreInput {
  Dims d;
  View dx;
  float factor;

  __device__ void operator()(int group, int, int row, int column, float sum) const {
    store(dx, int64_t{row} * d.c_in + group * d.group_in + column, sum * factor);
  }
};

void run_conv1d_grad_input(const Launch& launch) {
  ConvDims of = conv_dims(launch.out().shape, launch.in(1).shape, launch.attributes);
  Dims d(of);
  View dy = view_of(launch.in(0)), w = view_of(launch.in(1)), dx = view_of(launch.out());
  if (suits_tensor_cores(of, dy, w)) {
    return tensor_conv1d_grad_input(of, dy, w, dx, launch.factor());
  }
  multiply(Product::of(of.groups, of.batch * of.time, of.group_in(), of.kernel * of.group_out()),
           Readers{d, dy}, TransposedWeights{d, w}, StoreInput{d, dx, launch.factor()});
}

struct TransposedWindows {  // x[(tap, channel), row of y]
  static constexpr bool kAlongSum = false;
  Dims d;
  View x;

  __device__ float operator()(int group, int row, int k) const {
    return d.input(x, group, k, row / d.group_in, row % d.group_in);
  }
};

struct OutputGrads {  // dy[row of y, output channel]
  static constexpr bool kAlongSum = false;
  Dims d;
  View dy;

  __device__ float operator()(int group, int k, int column) const {
    return load(dy, d.at_output(group, k, column));
  }
};

struct KeepChunk {
  Dims d;
  float* chunks;
  int64_t count;  // of all weights

  __device__ void operator()(int group, int chunk, int row, int column, float sum) const {
    chunks[chunk * count + d.at_weight(group, 0, row, column)] = sum;
  }
};

Product weight_product(const ConvDims& d) {
  return Product::of(d.groups, d.kernel * d.group_in(), d.group_out(), d.batch * d.time_out)
      .in_chunks();
}

ConvDims weight_dims(const Launch& launch) {
  return conv_dims(launch.in(0).shape, launch.out().shape, launch.attributes);
}

// For either way: what decides between them is known when it is run.
int64_t grad_weight_workspace(const Launch& launch) {
  ConvDims d = weight_dims(launch);
  int64_t chunks = std::max<int64_t>(weight_product(d).chunks, tensor_weight_chunks(d));
  return chunks * launch.out().count() * static_cast<int64_t>(sizeof(float));
}

void run_conv1d_grad_weight(const Launch& launch) {
  ConvDims of = weight_dims(launch);
  Dims d(of);
  Product product = weight_product(of);
  auto* chunks = reinterpret_cast<float*>(launch.workspace.data());
  int64_t count = launch.out().count(), chunk_count = product.chunks;
  View x = view_of(launch.in(0)), dy = view_of(launch.in(1)), dw = view_of(launch.out());
  if (suits_tensor_cores(of, x, dy)) {
    chunk_count = tensor_weight_chunks(of);
    tensor_conv1d_grad_weight(of, x, dy, chunks);
  } else {
    multiply(product, TransposedWindows{d, x}, OutputGrads{d, dy}, KeepChunk{d, chunks, count});
  }
  store_sums(chunks, chunk_count, count, dw, launch.factor());
}

constexpr Kernel kKernels[] = {
    {&conv1d_op, run_conv1d},
    {&conv1d_grad_input_op, run_conv1d_grad_input},
    {&conv1d_grad_weight_op, run_conv1d_grad_weight, grad_weight_workspace},
};

}  // namespace

std::span<const Kernel> conv_kernels() { return kKernels; }

}  // namespace sigma1::cuda
