// A block of a group that has one head of one sample, for the gradients of attention with relative
// positions: what it has in shared memory, and the steps of its work. See attention_group_grad.cu.
// Private to this folder.
#pragma once

#include "sigma1/backend/cuda/attention_group_pieces.cuh"
#include "sigma1/backend/cuda/attention_group_rooms.cuh"
#include "sigma1/backend/cuda/attention_row_stats.cuh"

namespace sigma1::cuda::group_grad {

inline constexpr int kBlockThreads = kUnits * 32;
inline constexpr int kSkewStride = kMostTiles * kOwned + 4;  // few rows a bank, straight and skewed
inline constexpr int kPieceStride = kOwned + 8;  // rows that are read at once, all banks
inline constexpr int kStatsStride = kOwned + 2;  // likewise, of four units that follow each other

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
  Rows values;                                             // later dy of all queries
  typename Size::Element grads[2][kOwned][Size::kStride];  // dy of the block's
  union {
    float skew[2][kOwned][kSkewStride];
    Pieces own;
  };
  Parcel received;
  float4 stats[2][kMostTiles][kStatsStride];
  float inverses[2];  // of the block's queries, as of its parcel
};

struct Outputs {
  Gradient queries, columns[kKinds];
};

template <class Size>
struct Block {
  const Attention& a;
  Room<Size>& room;
  Parcel* parcels;  // of the group
  Pair at;
  int blocks = static_cast<int>(gridDim.y);                              // of the group
  int near = static_cast<int>(blockIdx.y), far = 2 * blocks - 1 - near;  // its tiles
  int tiles;                                                             // of the sequence
  // The warp's unit, those of the far tile first.
  int part = warp_of_block();
  bool is_near = part > far;
  int first = is_near ? far + 1 : 0;  // unit of its queries
  int row = is_near ? near : far, column = part - first, distance = row - column;
  bool exists;

  __device__ Block(const Attention& of, void* shared, Parcel* of_group, int pair)
      : a(of),
        room(*static_cast<Room<Size>*>(shared)),
        parcels(of_group),
        at(of, pair),
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
  // In three groups, as they are needed: the block's queries with keys and distances that they see;
  // their gradients with values; other queries that see the block's keys.
  __device__ void copy_inputs() const {
    int64_t start = at.start(a, a.tq);
    int seen = far < tiles ? far + 1 : near < tiles ? near + 1 : 0;
    copy(a.q, start, far, far + 1, room.queries);
    copy(a.q, start, near, near + 1, room.queries);
    copy(a.relative, at.head * a.d, 0, seen, room.distances);
    copy(a.k, start, 0, seen, room.keys);
    commit_copies();
    for (int of_near = 0; of_near < 2; ++of_near) {
      copy_rows<Size, kBlockThreads>(a, a.dy, start, (of_near != 0 ? near : far) * kOwned, kOwned,
                                     a.tq, room.grads[of_near][0]);
    }
    copy(a.v, start, 0, seen, room.values);
    commit_copies();
    copy(a.q, start, near + 1, min(far, tiles), room.queries);
    copy(a.q, start, far + 1, tiles, room.queries);
    commit_copies();
  }
  // Once nobody needs values.
  __device__ void copy_grads() const {
    copy(a.dy, at.start(a, a.tq), near, tiles, room.values);
    commit_copies();
  }

  // Dot products; those with distances go to shared memory.
  __device__ void score_keys(Tiles<2>& scores) const {
    HeldRows<Size> q(room.queries[row * kOwned]);
    Tiles<2> skewed = {};
    add_warp_dots<Size, 2>(q, room.distances[distance * kOwned], skewed);
    add_warp_dots<Size, 2>(q, room.keys[column * kOwned], scores);
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      const float* two = &skewed[n / 4][n % 4];
      float* to = room.skew[is_near][tile_row(n % 4)];
      to += distance * kOwned + n / 4 * 8 + tile_column(0);
      *reinterpret_cast<float2*>(to) = make_float2(two[0], two[1]);
    }
  }
  __device__ void score_values(Tiles<2>& dscores) const {
    LeftRoom<Size> dy{room.grads[is_near][0]};
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

  // Of a unit of the warp's queries: those that are read at once follow each other.
  __device__ float4* stats_of(int of_column) const {
    return room.stats[is_near][of_column % 4 * 4 + of_column / 4];
  }
  __device__ RowGrad find_row(int of_row) const {
    return row_grad<kMostTiles>(row + 1, [&](int unit) { return stats_of(unit)[of_row]; });
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
    parcels[owner(tile)].pieces[kind][slot(tile, row)][lane_of_warp()] = piece.words();
  }
  // Probabilities and gradients of logits, to where they are needed.
  __device__ void share_weights(Tiles<2>& scores, Tiles<2>& dscores) const {
    const RowGrad rows[] = {find_row(tile_row(0)), find_row(tile_row(2))};
    Power power(largest_of_rows(fmaxf(rows[0].bound, rows[1].bound)));
    softmax_grad(rows, power.scale, scores, dscores);
    Factor<Size> weights(scores[0], scores[1]), dweights(dscores[0], dscores[1]);
    send(kOfValues, column, transposed(weights));
    send(kOfKeys, column, transposed(dweights));
    room.own.by_key[part][lane_of_warp()] = Piece(dweights).words();
    keep_by_distance(dweights);
    if (column > 0) return;
    if (lane_of_warp() == 0) room.inverses[is_near] = power.inverse;
    if (lane_of_warp() < blocks) parcels[lane_of_warp()].inverses[row] = power.inverse;
  }
  // Once all units have filled them up.
  __device__ void share_distances() const {
    const uint16_t* piece = room.own.by_distance[first + distance];
    send(kOfDistances, distance, Piece(Factor<Size>::transposed(piece, kPieceStride)));
  }

  __device__ void store(const Gradient& to, int tile, int x, const Tiles<2>& sums,
                        float inverse = 1) const {
    int begin = tile * kOwned + tile_row(0);
    int64_t place = at.start(a, a.tq) + begin * a.width + x + tile_column(0);
    auto scaled = [factor = to.factor * inverse](const float(&s)[4]) {
      return make_float4(s[0] * factor, s[1] * factor, s[2] * factor, s[3] * factor);
    };
    store_tile(to.to, place, 8 * a.width, static_cast<int>(a.tq) - begin, scaled(sums[0]),
               scaled(sums[1]));
  }

  // By a warp that has no share of the sums, which so have time to be computed meanwhile.
  __device__ bool is_messenger() const { return part == kUnits - 1; }
  __device__ void fetch_parcel(Meeting& meeting) const {
    if (lane_of_warp() == 0) meeting.attend(near, blocks);
    __syncwarp();
    const Parcel& from = parcels[near];
    auto copy_piece = [&](Columns kind, int unit) {
      copy_16_async(&room.received.pieces[kind][unit][lane_of_warp()],
                    &from.pieces[kind][unit][lane_of_warp()]);
    };
#pragma unroll 4
    for (int unit = 0; unit <= 2 * blocks; ++unit) {
      for (Columns kind : {kOfKeys, kOfValues, kOfDistances}) copy_piece(kind, unit);
    }
    constexpr int kEach = 4;
    int first = lane_of_warp() * kEach;
    if (first < kMostTiles) copy_16_async(&room.received.inverses[first], &from.inverses[first]);
    commit_copies();
  }

  // What a warp has of sums: 16 numbers of the rows of one of the block's tiles.
  static constexpr int kShares = Size::kHead / kOwned;
  static_assert(4 * kShares < kUnits);
  __device__ bool has_share(int tile, int x) const { return tile < tiles && x < a.d; }
  __device__ int tile_of_share() const { return part / kShares % 2 == 0 ? far : near; }
  __device__ int x_of_share() const { return part % kShares * kOwned; }

  __device__ void sum_keys(const Gradient& to) const {
    int tile = tile_of_share(), x = x_of_share(), begin = tile == far ? 0 : far + 1;
    if (part >= 2 * kShares || !has_share(tile, x)) return;
    Tiles<2> of_keys = {}, of_distances = {};
#pragma unroll 4
    for (int n = 0; n <= tile; ++n) {
      Piece by_key(room.own.by_key[begin + n][lane_of_warp()]);
      RightPiece<Size>(room.keys[n * kOwned] + x).add(by_key, of_keys);
      Piece by_distance(Factor<Size>(room.own.by_distance[begin + n], kPieceStride));
      RightPiece<Size>(room.distances[n * kOwned] + x).add(by_distance, of_distances);
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) of_keys[n / 4][n % 4] += of_distances[n / 4][n % 4];
    store(to, tile, x, of_keys, room.inverses[tile == near]);
  }
  // Half of the warps have gradients of values, the others those of keys and distances, which are
  // sums of the same queries.
  __device__ void sum_queries(const Gradient (&to)[kKinds]) const {
    int tile = tile_of_share(), x = x_of_share();
    if (part >= 4 * kShares || !has_share(tile, x)) return;
    auto received = [&](Columns kind, int n) {
      return Piece(room.received.pieces[kind][slot(tile, n)][lane_of_warp()]);
    };
    Tiles<2> sums = {}, of_distances = {};
    if (part < 2 * kShares) {
#pragma unroll 4
      for (int n = tile; n < tiles; ++n) {
        RightPiece<Size>(room.values[n * kOwned] + x).add(received(kOfValues, n), sums);
      }
      return store(to[kOfValues], tile, x, sums, kOfWeights);
    }
#pragma unroll 2
    for (int n = tile; n < tiles; ++n) {
      RightPiece<Size> rows(room.queries[n * kOwned] + x);
      Tiles<2> by_key = {}, by_distance = {};
      rows.add(received(kOfKeys, n), by_key);
      rows.add(received(kOfDistances, n), by_distance);
      float inverse = room.received.inverses[n];
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        sums[k / 4][k % 4] += inverse * by_key[k / 4][k % 4];
        of_distances[k / 4][k % 4] += inverse * by_distance[k / 4][k % 4];
      }
    }
    store(to[kOfKeys], tile, x, sums);
    store(to[kOfDistances], tile, x, of_distances);
  }
};

}  // namespace sigma1::cuda::group_grad
