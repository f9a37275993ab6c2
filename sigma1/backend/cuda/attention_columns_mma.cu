// The gradients of attention that are summed over queries, by tensor cores: dk and dv of 16 keys,
// or those of 16 distances. Scores lie transposed, a row for each key or distance, so that they can
// be factors as they are. Gradients by distance are summed over samples too: a block keeps those of
// its sample, and the last one to be done adds up all of them, in the samples' order.
//
// A sum over queries needs one power of two for all of them: that of the largest gradient.
#include "sigma1/backend/cuda/attention_columns.cuh"

namespace sigma1::cuda {
namespace {

template <class Size>
__device__ void grad_keys(const Attention& a, const Pair& at, const RowGrad* rows, float* room,
                          const Gradient& dk, const Gradient& dv) {
  using Block = ColumnBlock<Size, false>;
  Block block(a, at, room);
  Power power = block.begin(rows);
  Tiles<Size::kTiles> of_keys = {}, of_values = {};
  block.for_each_chunk([&](int i0) {
    typename Block::Queries queries(block, rows, i0);
    Tiles<2> scores = {}, dscores = {};
    block.score(scores);
    block.softmax(i0, queries, scores);
    Factor<Size> weights(scores[0], scores[1]);
    add_warp_products<Size>(weights, block.grads(), of_values);
    block.score_grads(dscores);
    Block::softmax_grad(queries, power.scale, scores, dscores);
    Factor<Size> dweights(dscores[0], dscores[1]);
    add_warp_products<Size>(dweights, block.queries(), of_keys);
  });
  auto store_to = [&](const Gradient& gradient, float inverse) {
    return [&, factor = gradient.factor * inverse](int row, int x, float2 two) {
      two = make_float2(two.x * factor, two.y * factor);
      store_two(a, at, gradient.to, a.tk, block.first + row, x, two);
    };
  };
  sum_parts<Size>(room, of_values, store_to(dv, kOfWeights));
  sum_parts<Size>(room, of_keys, store_to(dk, power.inverse));
}

template <class Size>
__device__ void grad_distances(const Attention& a, const Pair& at, const GradRooms& rooms,
                               float* room, const Gradient& drelative) {
  using Block = ColumnBlock<Size, true>;
  Block block(a, at, room);
  Power power = block.begin(rooms.rows);
  Tiles<Size::kTiles> sums = {};
  block.for_each_chunk([&](int i0) {
    typename Block::Queries queries(block, rooms.rows, i0);
    Tiles<2> scores = {}, dscores = {};
    block.score(scores);
    block.softmax(i0, queries, scores);
    block.score_grads(dscores);
    Block::softmax_grad(queries, power.scale, scores, dscores);
    Factor<Size> dweights(dscores[0], dscores[1]);
    add_warp_products<Size>(dweights, block.queries(), sums);
  });
  View by_sample = {rooms.by_sample, Type::fp32, false, nullptr, a.batch * a.tk * a.width};
  sum_parts<Size>(room, sums, [&](int row, int x, float2 two) {
    two = make_float2(two.x * power.inverse, two.y * power.inverse);
    store_two(a, at, by_sample, a.tk, block.first + row, x, two);
  });
  add_samples(a, at, rooms, kOwned, drelative);
}

template <class Size>
constexpr int kRoomFloats = std::max(ColumnBlock<Size, true>::kFloats,
                                     ColumnBlock<Size, false>::kFloats);
template <class Size>
constexpr bool kFits = kRoomFloats<Size> * sizeof(float) <= kMostShared;

// Tiles of keys, and of distances where there are any: those that most queries see first.
template <class Size>
__global__ void __launch_bounds__(kThreads, Size::kIsFp32 ? 1 : Size::kBlocksOfSm)
    grad_columns(Attention a, GradRooms rooms, ColumnGrads to) {
  extern __shared__ float4 shared[];
  auto* room = reinterpret_cast<float*>(shared);
  Pair at(a);
  if (!a.has_relative) return grad_keys<Size>(a, at, rooms.rows, room, to.keys, to.values);
  bool of_distances = at.tile % 2 == 0;
  at.tile /= 2;
  if (of_distances) {
    grad_distances<Size>(a, at, rooms, room, to.distances);
  } else {
    grad_keys<Size>(a, at, rooms.rows, room, to.keys, to.values);
  }
}

}  // namespace

bool has_column_grads(const Attention& a) {
  bool fits = false;
  with_mma_size(a, [&]<class Size>(Size) { fits = kFits<Size>; });
  return fits;
}

void run_column_grads(const Attention& a, const GradRooms& rooms, const ColumnGrads& to) {
  with_mma_size(a, [&]<class Size>(Size) {
    if constexpr (kFits<Size>) {
      int floats = a.has_relative ? kRoomFloats<Size> : ColumnBlock<Size, false>::kFloats;
      launch_tiles(grad_columns<Size>, a.pairs() * rooms.tiles * (a.has_relative ? 2 : 1), floats,
                   a, rooms, to);
    }
  });
}

}  // namespace sigma1::cuda
