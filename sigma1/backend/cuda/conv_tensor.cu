#include "sigma1/backend/cuda/conv_tensor.cuh"

#include <algorithm>

#include "sigma1/backend/cuda/conv_tiles.cuh"
#include "sigma1/backend/cuda/launch.cuh"

namespace sigma1::cuda {
namespace {

// The result and the gradient of x are the same sum: out[t] = Σ over taps of in[t + tap − before]
// times the tap's matrix.
struct Correlation {
  const void *in, *w;
  View out, bias;
  int kernel, before;
  Side from, to;  // of `in` and `out`
  float factor;
};

constexpr int kRowsOfBlock = 64, kBlockThreads = kRowsOfBlock / 16 * 32;

// Where a block works: a tile of times of one sample, a tile of channels of one group.
struct Place {
  int batch, t0, column0, group;

  __device__ explicit Place(const Correlation& c) {
    int tiles = (c.to.time + kRowsOfBlock - 1) / kRowsOfBlock, columns = c.to.channels / kTile;
    int block = static_cast<int>(blockIdx.x);
    column0 = block % columns * kTile;
    t0 = block / columns % tiles * kRowsOfBlock;
    batch = block / columns / tiles;
    group = column0 / c.to.group;
  }
};

// The taps' matrices for a tile of the result's channels: rows by channel of `in`, or, where w lies
// the other way round, rows by channel of `out` and taps backwards.
template <class Element, bool kTransposed>
__device__ void stage_weights(const Correlation& c, const Place& p, Element* to) {
  const auto* w = static_cast<const Element*>(c.w);
  int threads = static_cast<int>(blockDim.x);
  if constexpr (kTransposed) {
    int packs = c.from.group / 8, column = p.column0 % c.to.group;
    for (int i = static_cast<int>(threadIdx.x); i < c.kernel * kTile * packs; i += threads) {
      int row = i / packs, x = i % packs * 8, tap = row / kTile, n = row % kTile;
      int64_t from = int64_t{c.kernel - 1 - tap} * c.to.group + column + n;
      copy_16_async(to + row * (c.from.group + kGap) + x,
                    w + from * c.from.channels + p.group * c.from.group + x);
    }
  } else {
    constexpr int kPacks = kTile / 8;
    for (int i = static_cast<int>(threadIdx.x); i < c.kernel * c.from.group * kPacks;
         i += threads) {
      int row = i / kPacks, x = i % kPacks * 8;
      copy_16_async(to + row * (kTile + kGap) + x,
                    w + int64_t{row} * c.to.channels + p.column0 + x);
    }
  }
}

// Channels [k0, k0 + 16) of a tap's matrix as the two right factors of a tile.
template <class Element, bool kTransposed>
__device__ void load_weights(const Correlation& c, const Element* weights, int tap, int k0,
                             uint32_t (&to)[4]) {
  int lane = static_cast<int>(threadIdx.x) % 32, low = lane % 8, matrix = lane / 8;
  if constexpr (kTransposed) {
    int n = low + 8 * (matrix / 2), k = k0 + 8 * (matrix % 2);
    load_matrix_x4(to, weights + (tap * kTile + n) * (c.from.group + kGap) + k);
  } else {
    int n = 8 * (matrix / 2), k = k0 + low + 8 * (matrix % 2);
    load_matrix_x4_transposed(to, weights + (tap * c.from.group + k) * (kTile + kGap) + n);
  }
}

__device__ void store_pair(const View& to, int64_t first, float a, float b) {
  if (to.type != Type::fp16 && to.type != Type::bf16) {
    store(to, first, a);
    return store(to, first + 1, b);
  }
  alignas(4) uint16_t codes[2];
  View pair{codes, to.type, to.saturates, nullptr, 2};
  store(pair, 0, a);
  store(pair, 1, b);
  static_cast<uint32_t*>(to.data)[first / 2] = codes[0] | uint32_t{codes[1]} << 16;
}

__device__ void store_tile(const Correlation& c, const Place& p, const float (&sums)[2][4]) {
  int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int half = i % 2, column = p.column0 + 8 * (i / 2) + lane % 4 * 2;
    int t = p.t0 + 16 * warp + lane / 4 + 8 * half;
    if (t >= c.to.time) continue;
    float first = c.factor * sums[i / 2][2 * half], second = c.factor * sums[i / 2][2 * half + 1];
    if (c.bias.data != nullptr) {
      first += load(c.bias, column) * c.factor;
      second += load(c.bias, column + 1) * c.factor;
    }
    store_pair(c.out, (int64_t{p.batch} * c.to.time + t) * c.to.channels + column, first, second);
  }
}

template <class Element, bool kTransposed>
__global__ void __launch_bounds__(kBlockThreads) correlate(Correlation c) {
  extern __shared__ uint4 shared[];
  Place p(c);
  int stride = c.from.group + kGap, reach = kRowsOfBlock + c.kernel - 1;
  auto* rows = reinterpret_cast<Element*>(shared);
  Element* weights = rows + reach * stride;
  stage_rows(static_cast<const Element*>(c.in), p.batch, c.from.time, c.from.channels,
             p.t0 - c.before, reach, p.group * c.from.group, c.from.group, rows);
  stage_weights<Element, kTransposed>(c, p, weights);
  commit_copies();
  wait_copies<0>();
  __syncthreads();
  int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  // Of the left factor: the row and the channels that this lane names.
  const Element* from = rows + (16 * warp + lane % 16) * stride + lane / 16 * 8;
  float sums[2][4] = {};
  for (int tap = 0; tap < c.kernel; ++tap) {
    for (int k = 0; k < c.from.group; k += 16) {
      uint32_t left[4], right[4];
      load_matrix_x4(left, from + tap * stride + k);
      load_weights<Element, kTransposed>(c, weights, tap, k, right);
      mma_16x8x16<Element>(sums[0], left, {right[0], right[1]});
      mma_16x8x16<Element>(sums[1], left, {right[2], right[3]});
    }
  }
  store_tile(c, p, sums);
}

int64_t correlation_bytes(int64_t kernel, int64_t group_in) {
  int64_t rows = (kRowsOfBlock + kernel - 1) * (group_in + kGap);
  int64_t weights = kernel * std::max(kTile * (group_in + kGap), group_in * (kTile + kGap));
  return 2 * (rows + weights);
}

template <bool kTransposed>
void launch_correlation(const Correlation& c, int64_t batch, Type type) {
  auto kernel =
      type == Type::fp16 ? correlate<__half, kTransposed> : correlate<__nv_bfloat16, kTransposed>;
  int64_t blocks = batch * ceil_div(c.to.time, kRowsOfBlock) * (c.to.channels / kTile);
  auto bytes = static_cast<size_t>(correlation_bytes(c.kernel, c.from.group));
  allow_most_shared(kernel, "conv1d");
  launch_kernel("conv1d", kernel, {static_cast<unsigned>(blocks), kBlockThreads, bytes}, c);
}

bool is_aligned(const View& view) { return reinterpret_cast<uintptr_t>(view.data) % 16 == 0; }

}  // namespace

bool suits_tensor_cores(const ConvDims& d, const View& a, const View& b) {
  constexpr int64_t kMostBytes = 100 << 10, kMostElements = int64_t{1} << 30;
  bool has_type = a.type == b.type && (a.type == Type::fp16 || a.type == Type::bf16);
  if (!has_type || a.scale != nullptr || b.scale != nullptr) return false;
  if (!is_aligned(a) || !is_aligned(b)) return false;
  if (d.stride != 1 || d.dilation != 1) return false;
  if (d.group_in() % kTile != 0 || d.group_out() % kTile != 0) return false;
  if (std::max(a.count, b.count) >= kMostElements) return false;
  return correlation_bytes(d.kernel, std::max(d.group_in(), d.group_out())) <= kMostBytes;
}

void tensor_conv1d(const ConvDims& d, const View& x, const View& w, const View& bias, const View& y,
                   float factor) {
  launch_correlation<false>({.in = x.data,
                             .w = w.data,
                             .out = y,
                             .bias = bias,
                             .kernel = static_cast<int>(d.kernel),
                             .before = static_cast<int>(d.padding),
                             .from = side_of_x(d),
                             .to = side_of_y(d),
                             .factor = factor},
                            d.batch, x.type);
}

void tensor_conv1d_grad_input(const ConvDims& d, const View& dy, const View& w, const View& dx,
                              float factor) {
  launch_correlation<true>({.in = dy.data,
                            .w = w.data,
                            .out = dx,
                            .bias = View{},
                            .kernel = static_cast<int>(d.kernel),
                            .before = static_cast<int>(d.kernel - 1 - d.padding),
                            .from = side_of_y(d),
                            .to = side_of_x(d),
                            .factor = factor},
                           d.batch, dy.type);
}

}  // namespace sigma1::cuda
