// The gradients that need all steps at once, in one launch: of x and of the weights as products on
// tensor cores, of the bias and the first state as sums over samples. The gates' gradients span
// more than 16 bits do, so that factors are taken as fp32.
#include <cooperative_groups.h>

#include "sigma1/backend/cuda/recurrent_steps.cuh"
#include "sigma1/backend/cuda/tf32_tile.cuh"

namespace sigma1::cuda {
namespace {

using namespace tf32_tile;

constexpr int kParts = 8;  // of a weight's sum, each of one block of a cluster

template <class Element>
struct Gradients {
  RecurrentSteps s;
  RecurrentResults to;
  int rows;
  int columns;  // of the gates
  int deep;     // of a weight's operands
};

__device__ uint32_t bits_at(const View& from, int i) {
  return static_cast<const uint16_t*>(from.data)[i];
}
template <class Element>
__device__ float number_of(uint32_t bits) {
  auto half = static_cast<unsigned short>(bits);
  if constexpr (std::is_same_v<Element, __half>) return __half2float(__ushort_as_half(half));
  return __bfloat162float(__ushort_as_bfloat16(half));
}

// Factors of the products: bits(outer, k) as they lie in memory, which can be on their way for
// long, and the numbers that these mean. Zeros outside.
template <class Element, bool kAlong>
struct GateFactor {
  const Gradients<Element>& p;
  int outer0;

  __device__ uint32_t bits(int outer, int k) const {
    int row = kAlong ? outer0 + outer : k, column = kAlong ? k : outer0 + outer;
    if (row >= p.rows || column >= p.columns) return 0;
    return __float_as_uint(p.s.gates[row * p.columns + column]);
  }
  __device__ float number(int, uint32_t bits) const { return __uint_as_float(bits); }
};

template <class Element>
struct InputWeightFactor {
  const Gradients<Element>& p;
  int outer0;

  __device__ uint32_t bits(int outer, int k) const {
    if (outer0 + outer >= p.s.n_in || k >= p.columns) return 0;
    return bits_at(p.s.w, (outer0 + outer) * p.columns + k);
  }
  __device__ float number(int, uint32_t bits) const { return number_of<Element>(bits); }
};

// x, then the state.
template <class Element>
struct OperandFactor {
  const Gradients<Element>& p;
  int outer0;

  __device__ uint32_t bits(int outer, int k) const {
    int at = outer0 + outer;
    if (k >= p.rows || at >= p.deep) return 0;
    if (at < p.s.n_in) return bits_at(p.s.x, k * p.s.n_in + at);
    return __float_as_uint(p.s.operands[k * p.deep + at]);
  }
  __device__ float number(int outer, uint32_t bits) const {
    return outer0 + outer < p.s.n_in ? number_of<Element>(bits) : __uint_as_float(bits);
  }
};

// dgates · w_xᵀ
template <class Element>
__device__ void input_tile(const Gradients<Element>& p, int tile, float* shared) {
  int across = (p.s.n_in + kTile - 1) / kTile;
  int row0 = tile / across * kTile;
  int column0 = tile % across * kTile;
  Sums sums = {};
  multiply_tile<true, true>(0, p.columns, GateFactor<Element, true>{p, row0},
                            InputWeightFactor<Element>{p, column0}, shared, sums);
  float factor = p.s.weight_scale * p.to.factors[0];
  for_sums(sums, [&](int row, int column, float sum) {
    if (row0 + row >= p.rows || column0 + column >= p.s.n_in) return;
    store(p.to.dx, (row0 + row) * p.s.n_in + column0 + column, sum * factor);
  });
}

// operandsᵀ · dgates, by a cluster: its blocks have equal parts of the rows.
template <class Element>
__device__ void weight_tile(const Gradients<Element>& p, int tile, float* shared) {
  auto cluster = cooperative_groups::this_cluster();
  int across = (p.columns + kTile - 1) / kTile;
  int row0 = tile / across * kTile;
  int column0 = tile % across * kTile;
  auto rank = static_cast<int>(cluster.block_rank());
  int each = (p.rows + kParts - 1) / kParts, begin = rank * each;
  Sums sums = {};
  multiply_tile<false, false>(begin, min(p.rows, begin + each), OperandFactor<Element>{p, row0},
                              GateFactor<Element, false>{p, column0}, shared, sums);
  for_sums(sums, [&](int row, int column, float sum) { shared[row * kTile + column] = sum; });
  cluster.sync();
  float factor = p.s.weight_scale * p.to.factors[1];
  constexpr int kShare = kTile * kTile / kParts;
  for (int i = static_cast<int>(threadIdx.x); i < kShare; i += kTileThreads) {
    int place = rank * kShare + i, row = row0 + place / kTile, column = column0 + place % kTile;
    float sum = 0;
#pragma unroll
    for (int part = 0; part < kParts; ++part) sum += cluster.map_shared_rank(shared, part)[place];
    if (row >= p.deep || column >= p.columns) continue;
    store(p.to.dw, row * p.columns + column, sum * factor);
  }
  cluster.sync();  // until nobody reads this block's memory any more
}

// Over samples, in their order.
__device__ void store_sample_sums(const float* from, int samples, int count, const View& to,
                                  float factor) {
  int step = kParts * kTileThreads;
  int first = static_cast<int>(blockIdx.x) % kParts * kTileThreads;
  for (int i = first + static_cast<int>(threadIdx.x); i < count; i += step) {
    float sum = 0;
    for (int sample = 0; sample < samples; ++sample) sum += from[int64_t{sample} * count + i];
    store(to, i, sum * factor);
  }
}

// First a cluster of sums, then one for each tile of weights, then tiles of inputs by blocks.
template <class Element>
__global__ void __launch_bounds__(kTileThreads, 2)
    gradient_products(Gradients<Element> p, int weight_tiles, int input_tiles) {
  __shared__ float shared[kShared];
  const int block = static_cast<int>(blockIdx.x), task = block / kParts - 1;
  if (task < 0) {
    store_sample_sums(p.s.dbias, p.s.batch, p.columns, p.to.dbias, p.to.factors[2]);
    store_sample_sums(p.s.dstate, p.s.batch, p.s.h, p.to.dinitial, p.to.factors[3]);
  } else if (task < weight_tiles) {
    weight_tile(p, task, shared);
  } else {
    int tile = block - (1 + weight_tiles) * kParts;
    if (tile < input_tiles) input_tile(p, tile, shared);
  }
}

int tiles(int n) { return (n + kTile - 1) / kTile; }

template <class Element>
void launch(const RecurrentSteps& s, const RecurrentResults& to) {
  Gradients<Element> p{s, to, s.batch * s.time, 2 * s.h, s.n_in + s.h};
  int weight_tiles = tiles(p.deep) * tiles(p.columns);
  int input_tiles = tiles(p.rows) * tiles(s.n_in);
  int clusters = 1 + weight_tiles + (input_tiles + kParts - 1) / kParts;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {kParts, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(clusters * kParts));
  config.blockDim = dim3(kTileThreads);
  config.stream = stream();
  config.attrs = &cluster;
  config.numAttrs = 1;
  check(cudaLaunchKernelEx(&config, gradient_products<Element>, p, weight_tiles, input_tiles),
        "recurrent products");
}

}  // namespace

bool suits_tensor_products(const RecurrentSteps& steps) {
  constexpr int64_t kMostNumbers = int64_t{1} << 30;  // each has an int
  int64_t rows = int64_t{steps.batch} * steps.time, n_in = steps.n_in, h = steps.h;
  bool is_small = (rows + n_in + h) * (n_in + 2 * h) < kMostNumbers;
  return is_small && suits_tensor_cores(steps) && steps.x.type == steps.w.type &&
         steps.x.scale == nullptr;
}

void tensor_products(const RecurrentSteps& steps, const RecurrentResults& to) {
  steps.w.type == Type::fp16 ? launch<__half>(steps, to) : launch<__nv_bfloat16>(steps, to);
}

}  // namespace sigma1::cuda
