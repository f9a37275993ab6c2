// A block of a cluster that has one head of one sample, for the gradients of attention with
// relative positions: what it has in shared memory, and the steps of its work. See
// attention_cluster_grad.cu. Private to this folder.
#pragma once

#include <cooperative_groups.h>

#include "sigma1/backend/cuda/attention_row_stats.cuh"

namespace sigma1::cuda::cluster_grad {

inline constexpr int kMostTiles = 16;          // of a sequence
inline constexpr int kUnits = kMostTiles + 1;  // of a block
inline constexpr int kBlockThreads = kUnits * 32;
inline constexpr int kSkewStride = kMostTiles * kOwned + 4;  // few rows a bank, straight and skewed
inline constexpr int kPieceStride = kOwned + 8;  // rows that are read at once, all banks

enum Columns { kOfKeys, kOfValues, kOfDistances, kKinds };

// A lane's part of 16×16 numbers that rows are multiplied by.
struct Piece {
  uint32_t at[4];

  __device__ explicit Piece(uint4 words) : at{words.x, words.y, words.z, words.w} {}
  template <class Size>
  __device__ explicit Piece(const Factor<Size>& factor)
      : at{factor.at[0], factor.at[1], factor.at[2], factor.at[3]} {}
  __device__ uint4 words() const { return make_uint4(at[0], at[1], at[2], at[3]); }
};

__device__ inline uint32_t transposed_8x8(uint32_t pair) {
  uint32_t turned;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
  return turned;
}
template <class Size>
__device__ Piece transposed(const Factor<Size>& factor) {
  return Piece(make_uint4(transposed_8x8(factor.at[0]), transposed_8x8(factor.at[2]),
                          transposed_8x8(factor.at[1]), transposed_8x8(factor.at[3])));
}

// sums_r += Σ over 16 rows c of weights[r][c] · rows_c, of 16 numbers
template <class Size>
__device__ void add_products(const Piece& weights, const typename Size::Element* rows,
                             Tiles<2>& sums) {
  using Element = typename Size::Element;
  int lane = lane_of_warp();
  uint32_t b[4];
  load_matrix_x4_transposed(b, rows + lane % 16 * Size::kStride + lane / 16 * 8);
  mma_16x8x16<Element>(sums[0], weights.at, {b[0], b[1]});
  mma_16x8x16<Element>(sums[1], weights.at, {b[2], b[3]});
}

// Shared memory of a block. Its units' own pieces lie where nobody needs products by distance any
// more.
template <class Size>
struct Room {
  using Rows = typename Size::Element[kMostTiles * kOwned][Size::kStride];
  struct Pieces {
    uint4 by_key[kUnits][32];
    uint16_t by_distance[kUnits][kOwned * kPieceStride];
  };

  Rows keys, distances, queries;
  Rows values;  // later dy
  union {
    float skew[2][kOwned][kSkewStride];
    Pieces own;
  };
  uint4 received[kKinds][kUnits][32];  // transposed, as Block::slot says
  float4 stats[kUnits][kOwned];
  float inverses[kMostTiles];  // powers of two that gradients of logits are to be multiplied by
};

struct Outputs {
  Gradient queries, columns[kKinds];
};

template <class Size>
struct Block {
  const Attention& a;
  Room<Size>& room;
  Pair at;
  int blocks = static_cast<int>(gridDim.y);                              // of the cluster
  int near = static_cast<int>(blockIdx.y), far = 2 * blocks - 1 - near;  // its tiles
  int tiles;                                                             // of the sequence
  // The warp's unit, those of the far tile first.
  int part = warp_of_block();
  bool is_near = part > far;
  int first = is_near ? far + 1 : 0;  // unit of its queries
  int row = is_near ? near : far, column = part - first, distance = row - column;
  bool exists;

  __device__ Block(const Attention& of, void* shared)
      : a(of),
        room(*static_cast<Room<Size>*>(shared)),
        at(of),
        tiles(static_cast<int>(of.tq + kOwned - 1) / kOwned),
        exists(row < tiles && column <= row) {}

  // Who sums up the columns of a tile, and where those of a tile of queries lie there.
  __device__ int owner(int tile) const { return tile < blocks ? tile : 2 * blocks - 1 - tile; }
  __device__ int slot(int tile, int of_row) const {
    return of_row - tile + (tile < blocks ? 0 : tile + 1);
  }

  __device__ void copy(const View& from, int64_t start, int begin, int end,
                       typename Room<Size>::Rows& to) const {
    copy_rows<Size, kBlockThreads>(a, from, start, begin * kOwned, (end - begin) * kOwned, a.tq,
                                   to[begin * kOwned]);
  }
  // What the block's queries see, and, as a second group, the queries that see its keys.
  __device__ void copy_inputs() const {
    int64_t start = at.start(a, a.tq);
    int seen = far < tiles ? far + 1 : near < tiles ? near + 1 : 0;
    copy(a.relative, at.head * a.d, 0, seen, room.distances);
    copy(a.k, start, 0, seen, room.keys);
    copy(a.v, start, 0, seen, room.values);
    commit_copies();
    copy(a.q, start, near, tiles, room.queries);
    commit_copies();
  }
  __device__ void copy_grads() const {
    copy(a.dy, at.start(a, a.tq), near, tiles, room.values);
    commit_copies();
  }

  // Dot products, once the copies have come; those with distances stay in shared memory.
  __device__ void score(Tiles<2>& scores, Tiles<2>& dscores) const {
    auto rows = [&](const View& from) {
      return LeftRows<Size>(a, from, at.start(a, a.tq), row * kOwned, a.tq);
    };
    LeftRows<Size> q = rows(a.q), dy = rows(a.dy);
    wait_copies<1>();
    __syncthreads();
    if (!exists) return;
    Tiles<2> skewed = {};
    add_warp_dots<Size, 2>(q, room.distances[distance * kOwned], skewed);
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      const float* two = &skewed[n / 4][n % 4];
      float* to = room.skew[is_near][tile_row(n % 4)];
      to += distance * kOwned + n / 4 * 8 + tile_column(0);
      *reinterpret_cast<float2*>(to) = make_float2(two[0], two[1]);
    }
    add_warp_dots<Size, 2>(q, room.keys[column * kOwned], scores);
    add_warp_dots<Size, 2>(dy, room.values[column * kOwned], dscores);
  }
  // Whether each of the lane's keys is there and not masked, a bit for each.
  __device__ unsigned shown_keys() const {
    unsigned bits = 0;
#pragma unroll 1
    for (int n = 0; n < 4; ++n) {
      int key = column * kOwned + n / 2 * 8 + tile_column(n);
      bool shows = key < a.tk && (!a.has_mask || load(a.mask, at.batch * a.tk + key) > 0);
      bits |= static_cast<unsigned>(shows) << n;
    }
    return bits;
  }
  // From dot products to logits, −∞ where unseen; gradients of probabilities are 0 there.
  __device__ void finish_scores(Tiles<2>& scores, Tiles<2>& dscores) const {
    float scale = a.temperature * kLog2e;
    bool sees_all = distance > 0 && !a.has_mask;
    unsigned shown = sees_all ? ~0U : shown_keys();
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      int i = tile_row(n % 4), back = distance * kOwned + i - n / 4 * 8 - tile_column(n);
      float& score = scores[n / 4][n % 4];
      score = (score + room.skew[is_near][i][max(back, 0)]) * scale;
      if (back >= 0 && (shown >> (n / 4 * 2 + n % 2) & 1) != 0) continue;
      score = -INFINITY;
      dscores[n / 4][n % 4] = 0;
    }
  }

  // Gradients of logits as of two tiles of distances, each of which another unit fills up.
  __device__ void keep_by_distance(const Factor<Size>& dweights) const {
    constexpr int kPiece = kOwned * kPieceStride;
    uint16_t* to = room.own.by_distance[first + distance];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      int i = tile_row(n % 4), back = i - n / 4 * 8 - tile_column(n);
      if (distance * kOwned + back < 0) continue;
      int place = i * kPieceStride + back + (back < 0 ? kOwned - kPiece : 0);
      to[place] = static_cast<uint16_t>(dweights.at[n / 2] >> n % 2 * 16);
    }
    if (column > 0) return;
    // No key is as far as these distances.
    int i = lane_of_warp() / 2, begin = lane_of_warp() % 2 * 8;
#pragma unroll
    for (int n = begin; n < begin + 8; ++n) {
      if (n > i) to[i * kPieceStride + n] = 0;
    }
  }
  // A transposed piece of the warp's queries, to whom the tile of columns belongs.
  __device__ void send(Columns kind, int tile, const Piece& piece) const {
    uint4* to = &room.received[kind][slot(tile, row)][lane_of_warp()];
    *cooperative_groups::cluster_group::map_shared_rank(to, owner(tile)) = piece.words();
  }
  // Probabilities and gradients of logits, to where they are needed.
  __device__ void share_weights(Tiles<2>& scores, Tiles<2>& dscores) const {
    const float4* stats = room.stats[first];
    const RowGrad rows[] = {row_grad<kMostTiles>(stats + tile_row(0), row + 1),
                            row_grad<kMostTiles>(stats + tile_row(2), row + 1)};
    Power power(largest_of_rows(fmaxf(rows[0].bound, rows[1].bound)));
    softmax_grad(rows, power.scale, scores, dscores);
    Factor<Size> weights(scores[0], scores[1]), dweights(dscores[0], dscores[1]);
    send(kOfValues, column, transposed(weights));
    send(kOfKeys, column, transposed(dweights));
    room.own.by_key[part][lane_of_warp()] = Piece(dweights).words();
    keep_by_distance(dweights);
    if (column > 0 || lane_of_warp() >= blocks) return;
    float* inverse = &room.inverses[row];
    *cooperative_groups::cluster_group::map_shared_rank(inverse, lane_of_warp()) = power.inverse;
  }
  // Once all units have filled them up.
  __device__ void share_distances() const {
    const uint16_t* piece = room.own.by_distance[first + distance];
    send(kOfDistances, distance, Piece(Factor<Size>::transposed(piece, kPieceStride)));
  }

  __device__ void store(const Gradient& to, int tile, int x, const Tiles<2>& sums) const {
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      const float* two = &sums[n / 4][n % 4];
      store_two(a, at, to.to, a.tq, tile * kOwned + tile_row(n % 4), x + n / 4 * 8 + tile_column(0),
                make_float2(two[0] * to.factor, two[1] * to.factor));
    }
  }
  // A warp has 16 numbers of one tile's queries.
  __device__ void sum_keys(Gradient to) const {
    constexpr int kShares = Size::kHead / kOwned;
    bool of_near = part / kShares == 1;
    int tile = of_near ? near : far, begin = of_near ? far + 1 : 0, x = part % kShares * kOwned;
    if (part >= 2 * kShares || tile >= tiles || x >= a.d) return;
    Tiles<2> of_keys = {}, of_distances = {};
#pragma unroll 4
    for (int n = 0; n <= tile; ++n) {
      Piece by_key(room.own.by_key[begin + n][lane_of_warp()]);
      add_products<Size>(by_key, room.keys[n * kOwned] + x, of_keys);
      Piece by_distance(Factor<Size>(room.own.by_distance[begin + n], kPieceStride));
      add_products<Size>(by_distance, room.distances[n * kOwned] + x, of_distances);
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) of_keys[n / 4][n % 4] += of_distances[n / 4][n % 4];
    to.factor *= room.inverses[tile];
    store(to, tile, x, of_keys);
  }
  // A warp has 16 numbers of one kind of columns, of both tiles.
  __device__ void sum_queries(const Gradient (&to)[kKinds]) const {
    constexpr int kShares = Size::kHead / kOwned;
    int kind = part / kShares, x = part % kShares * kOwned;
    if (kind >= kKinds || x >= a.d) return;
    const auto& rows = kind == kOfValues ? room.values : room.queries;
#pragma unroll 1
    for (int tile = near; tile < min(tiles, far + 1); tile += far - near) {
      Tiles<2> sums = {};
      const uint4* received = &room.received[kind][slot(tile, tile)][lane_of_warp()];
#pragma unroll 4
      for (int n = tile; n < tiles; ++n, received += 32) {
        Tiles<2> added = {};
        add_products<Size>(Piece(*received), rows[n * kOwned] + x, added);
        float factor = kind == kOfValues ? kOfWeights : room.inverses[n];
#pragma unroll
        for (int k = 0; k < 8; ++k) sums[k / 4][k % 4] += factor * added[k / 4][k % 4];
      }
      store(to[kind], tile, x, sums);
    }
  }
};

}  // namespace sigma1::cuda::cluster_grad
