#include "sigma1/backend/cuda/conv_tiles.cuh"

namespace sigma1::cuda {
namespace {

// The gradient of w. A block has a tile of channels of x by one of y of a group, a warp a tap; the
// rows of one sample, as many as fit, are staged together.
struct WeightSum {
  const void *x, *dy;
  float* chunks;  // [chunks, kernel, group_in, c_out]
  int units, units_each, unit_tiles;
  int kernel, padding;
  Side in, out;  // of x and dy
};

constexpr int kUnitRows = 256;   // times of one sample
constexpr int kTapsOfBlock = 8;  // a warp each
constexpr int kSumStride = kTile + kGap;
constexpr int64_t kMostChunks = 32;

// The sums of one tap over the rows of a unit.
template <class Element>
__device__ void add_unit(const Element* x, const Element* dy, int rows, int tap,
                         float (&sums)[2][4]) {
  int lane = static_cast<int>(threadIdx.x) % 32, low = lane % 8, matrix = lane / 8;
  const Element* left_row = x + (tap + low + 8 * (matrix / 2)) * kSumStride + 8 * (matrix % 2);
  const Element* right_row = dy + (low + 8 * (matrix % 2)) * kSumStride + 8 * (matrix / 2);
#pragma unroll 4
  for (int k = 0; k < rows; k += 16) {
    uint32_t left[4], right[4];
    load_matrix_x4_transposed(left, left_row + k * kSumStride);
    load_matrix_x4_transposed(right, right_row + k * kSumStride);
    mma_16x8x16<Element>(sums[0], left, {right[0], right[1]});
    mma_16x8x16<Element>(sums[1], left, {right[2], right[3]});
  }
}

template <class Element>
__global__ void __launch_bounds__(kTapsOfBlock * 32) sum_weights(WeightSum s) {
  extern __shared__ uint4 shared[];
  int in_tiles = s.in.group / kTile, out_tiles = s.out.channels / kTile;
  int block = static_cast<int>(blockIdx.x), pair = block % (in_tiles * out_tiles);
  int chunk = block / (in_tiles * out_tiles), warp = static_cast<int>(threadIdx.x) / 32;
  int out0 = pair / in_tiles * kTile, in0 = pair % in_tiles * kTile, group = out0 / s.out.group;
  int first_tap = static_cast<int>(blockIdx.y) * kTapsOfBlock;
  int taps = min(kTapsOfBlock, s.kernel - first_tap);
  auto* x = reinterpret_cast<Element*>(shared);
  Element* dy = x + (kUnitRows + kTapsOfBlock - 1) * kSumStride;
  float sums[2][4] = {};
  int end = min(s.units, (chunk + 1) * s.units_each);
  for (int unit = chunk * s.units_each; unit < end; ++unit) {
    int batch = unit / s.unit_tiles, t0 = unit % s.unit_tiles * kUnitRows;
    int rows = (min(kUnitRows, s.out.time - t0) + 15) / 16 * 16;
    __syncthreads();
    stage_rows(static_cast<const Element*>(s.x), batch, s.in.time, s.in.channels,
               t0 + first_tap - s.padding, rows + taps - 1, group * s.in.group + in0, kTile, x);
    stage_rows(static_cast<const Element*>(s.dy), batch, s.out.time, s.out.channels, t0, rows, out0,
               kTile, dy);
    commit_copies();
    wait_copies<0>();
    __syncthreads();
    if (warp < taps) add_unit(x, dy, rows, warp, sums);
  }
  if (warp >= taps) return;
  int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    int half = i % 2, channel = in0 + lane / 4 + 8 * half;
    int column = out0 + 8 * (i / 2) + lane % 4 * 2;
    int64_t row = (int64_t{chunk} * s.kernel + first_tap + warp) * s.in.group + channel;
    *reinterpret_cast<float2*>(s.chunks + row * s.out.channels + column) =
        make_float2(sums[i / 2][2 * half], sums[i / 2][2 * half + 1]);
  }
}

constexpr int kSumBytes = 2 * kSumStride * (2 * kUnitRows + kTapsOfBlock - 1);

int64_t unit_count(const ConvDims& d) { return d.batch * ceil_div(d.time_out, kUnitRows); }
int64_t units_each(const ConvDims& d) { return ceil_div(unit_count(d), kMostChunks); }

}  // namespace

int64_t tensor_weight_chunks(const ConvDims& d) { return ceil_div(unit_count(d), units_each(d)); }

void tensor_conv1d_grad_weight(const ConvDims& d, const View& x, const View& dy, float* chunks) {
  WeightSum s{.x = x.data,
              .dy = dy.data,
              .chunks = chunks,
              .units = static_cast<int>(unit_count(d)),
              .units_each = static_cast<int>(units_each(d)),
              .unit_tiles = static_cast<int>(ceil_div(d.time_out, kUnitRows)),
              .kernel = static_cast<int>(d.kernel),
              .padding = static_cast<int>(d.padding),
              .in = side_of_x(d),
              .out = side_of_y(d)};
  int64_t pairs = d.group_in() / kTile * (d.c_out / kTile);
  dim3 grid(static_cast<unsigned>(pairs * tensor_weight_chunks(d)),
            static_cast<unsigned>(ceil_div(d.kernel, kTapsOfBlock)));
  auto kernel = x.type == Type::fp16 ? sum_weights<__half> : sum_weights<__nv_bfloat16>;
  kernel<<<grid, kTapsOfBlock * 32, kSumBytes, stream()>>>(s);
  check(cudaGetLastError(), "conv1d_grad_weight");
}

}  // namespace sigma1::cuda
