// The numbers that a thread of a cluster chain has of a tensor, in one of two ways, and their way
// to and from memory and other blocks. By rows: each block has its share of the cluster's rows, a
// warp one row, a lane four neighbours of every 128 columns. By columns: each block has a slice of
// the columns of all rows, a warp 16 rows and some columns of the slice, as tensor cores leave
// them. See cluster_block.cuh for who includes this.
#pragma once

#include "sigma1/backend/cuda/cluster_block.cuh"

namespace sigma1::cuda {

template <int kCount>
struct Floats {
  static constexpr int kNumbers = kCount;
  float at[kCount];
};

// The same rounded, in pairs.
template <int kCount>
struct Pairs {
  uint32_t at[kCount];
};

// Rounds numbers, which become what is left of them.
template <class Element, bool kSaturates, int kCount>
__device__ Pairs<kCount / 2> round(Floats<kCount>& x) {
  Pairs<kCount / 2> pairs;
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    float &first = x.at[2 * i], &second = x.at[2 * i + 1];
    pairs.at[i] =
        kSaturates ? packed_within<Element>(first, second) : packed<Element>(first, second);
    unpack<Element>(pairs.at[i], first, second);
  }
  return pairs;
}

template <int kCount, class F>
__device__ Floats<kCount> map(const Floats<kCount>& x, const Floats<kCount>& y, F f) {
  Floats<kCount> result;
#pragma unroll
  for (int i = 0; i < kCount; ++i) result.at[i] = f(x.at[i], y.at[i]);
  return result;
}

struct PlainFloat {};  // the format of a vector, beside __half and __nv_bfloat16

// Some neighbours of a vector.
template <class From, int kCount>
__device__ Floats<kCount> read_vector(uint32_t from, int column) {
  Floats<kCount> result;
#pragma unroll
  for (int i = 0; i < kCount; i += 2) {
    if constexpr (std::is_same_v<From, PlainFloat>) {
      uint2 two = load_8(from + 4 * (column + i));
      result.at[i] = __uint_as_float(two.x), result.at[i + 1] = __uint_as_float(two.y);
    } else {
      unpack<From>(load_4(from + 2 * (column + i)), result.at[i], result.at[i + 1]);
    }
  }
  return result;
}

// By columns, which kBlocks share; of kBlocks = 1 every block has all.
template <class Block, int kColumns, int kBlocks = Block::kRanks>
struct ByColumns {
  using OfBlock = Block;
  static constexpr int kWidth = kColumns, kSlice = slice_of(kWidth, kBlocks);
  static constexpr int kWarps = Block::kColumnWarps;
  static constexpr int kOfWarp = slice_of(kSlice, kWarps), kTiles = kOfWarp / 8;
  static constexpr int kStride = padded(kSlice);
  static constexpr bool kAllExist = kSlice * kBlocks == kWidth && kOfWarp * kWarps == kSlice;
  using Numbers = Floats<4 * kTiles>;
  using Rounded = Pairs<2 * kTiles>;

  const Block& block;

  __device__ int in_slice() const { return block.group * kOfWarp; }
  __device__ int column() const { return (kBlocks == 1 ? 0 : block.rank * kSlice) + in_slice(); }
  // Whether there are columns behind so many tiles of the warp's.
  __device__ bool exists(int tile) const {
    if (tile >= kTiles) return false;
    return kAllExist || (in_slice() + 8 * tile < kSlice && column() + 8 * tile < kWidth);
  }
  // Of a tile and the next, or of a tile alone, in a place of all rows of the slice.
  __device__ uint32_t tile_row(int place, int tile) const {
    int row = block.part * 16 + block.lane % 16;
    return block.shared + place + 2 * (row * kStride + in_slice() + 8 * (tile + block.lane / 16));
  }
};

template <int kFrom, class Place>
__device__ typename Place::Numbers read_columns(const Place& place) {
  using Element = typename Place::OfBlock::Element;
  typename Place::Numbers result;
#pragma unroll
  for (int t = 0; t < Place::kTiles; t += 2) {
    uint32_t pairs[4];
    if (t + 1 < Place::kTiles) {
      load_matrix_x4(pairs, place.tile_row(kFrom, t));
    } else {
      load_matrix_x2(reinterpret_cast<uint32_t(&)[2]>(pairs), place.tile_row(kFrom, t));
    }
#pragma unroll
    for (int i = 0; i < 4 && t + i / 2 < Place::kTiles; ++i) {
      unpack<Element>(pairs[i], result.at[4 * t + 2 * i], result.at[4 * t + 2 * i + 1]);
    }
  }
  return result;
}

template <int kTo, class Place>
__device__ void put_columns(const Place& place, const typename Place::Rounded& pairs) {
#pragma unroll
  for (int t = 0; t < Place::kTiles; t += 2) {
    const uint32_t* of = &pairs.at[2 * t];
    if (t + 1 < Place::kTiles && place.exists(t + 1)) {
      store_matrix_x4(place.tile_row(kTo, t), reinterpret_cast<const uint32_t(&)[4]>(*of));
    } else if (place.exists(t)) {
      store_matrix_x2(place.tile_row(kTo, t), of[0], of[1]);
    }
  }
  __syncwarp();
}

// Calls take(row of the cluster, column of the slice, 8 numbers) for what the warp has put there.
template <int kFrom, class Place, class Take>
__device__ void for_pieces(const Place& place, Take take) {
  constexpr int kPieces = 16 * Place::kTiles;
#pragma unroll
  for (int first = 0; first < kPieces; first += 32) {
    int i = first + place.block.lane;
    if (i >= kPieces) break;
    int row = place.block.part * 16 + i / Place::kTiles, tile = i % Place::kTiles;
    if (!place.exists(tile)) continue;
    int column = place.in_slice() + 8 * tile;
    take(row, column, load_16(place.block.shared + kFrom + 2 * (row * Place::kStride + column)));
  }
  __syncwarp();
}

// What has been put to kFrom, to memory.
template <int kFrom, class Place>
__device__ void store_columns(const Place& place, std::byte* memory) {
  const auto& block = place.block;
  for_pieces<kFrom>(place, [&](int row, int column, uint4 pairs) {
    if (row >= block.rows) return;
    long long element =
        (block.first_row + row) * Place::kWidth + block.rank * Place::kSlice + column;
    __stcg(reinterpret_cast<uint4*>(memory + 2 * element), pairs);
  });
}

// What has been put to kFrom, to place kTo of the blocks that have its rows.
template <int kFrom, int kTo, int kExchange, class Place>
__device__ void send_to_rows(const Place& place) {
  const auto& block = place.block;
  constexpr int kOwnRows = Place::OfBlock::kOwnRows;
  for_pieces<kFrom>(place, [&](int row, int column, uint4 pairs) {
    int element = row % kOwnRows * Place::kWidth + block.rank * Place::kSlice + column;
    Address to(block.shared + kTo + 2 * element, kExchange, row / kOwnRows);
    send_16(to.place, to.barrier, pairs);
  });
}

// By rows.
template <class Block, int kColumns>
struct ByRows {
  using OfBlock = Block;
  static constexpr int kWidth = kColumns;
  static constexpr int kQuads = (kWidth + kQuadColumns - 1) / kQuadColumns;
  using Numbers = Floats<4 * kQuads>;
  using Rounded = Pairs<2 * kQuads>;

  const Block& block;

  __device__ int column(int quad) const { return quad * kQuadColumns + block.lane * 4; }
  __device__ bool exists(int quad) const {
    return (quad + 1) * kQuadColumns <= kWidth || column(quad) < kWidth;
  }
  // Every lane gets the result. of(i) is the lane's number i.
  template <class Of>
  __device__ float sum(Of of) const {
    float result = 0;
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      float four = (of(4 * q) + of(4 * q + 1)) + (of(4 * q + 2) + of(4 * q + 3));
      if (exists(q)) result += four;
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) result += __shfl_xor_sync(0xffffffff, result, step);
    return result;
  }
  template <class From, int kFrom>
  __device__ Numbers vector() const {
    Numbers result{};
#pragma unroll
    for (int q = 0; q < kQuads; ++q) {
      if (!exists(q)) continue;
      Floats<4> four = read_vector<From, 4>(block.shared + kFrom, column(q));
#pragma unroll
      for (int i = 0; i < 4; ++i) result.at[4 * q + i] = four.at[i];
    }
    return result;
  }
};

template <int kFrom, class Place>
__device__ typename Place::Numbers read_rows(const Place& place) {
  using Element = typename Place::OfBlock::Element;
  typename Place::Numbers result{};
  uint32_t row = place.block.shared + kFrom + 2 * place.block.own_row() * Place::kWidth;
#pragma unroll
  for (int q = 0; q < Place::kQuads; ++q) {
    if (!place.exists(q)) continue;
    uint2 two = load_8(row + 2 * place.column(q));
    unpack<Element>(two.x, result.at[4 * q], result.at[4 * q + 1]);
    unpack<Element>(two.y, result.at[4 * q + 2], result.at[4 * q + 3]);
  }
  return result;
}

template <class Place>
__device__ void store_rows(const Place& place, const typename Place::Rounded& pairs,
                           std::byte* memory) {
  const auto& block = place.block;
  if (!block.has_row() || block.row() >= block.rows) return;
#pragma unroll
  for (int q = 0; q < Place::kQuads; ++q) {
    if (!place.exists(q)) continue;
    long long element = (block.first_row + block.row()) * Place::kWidth + place.column(q);
    __stcg(reinterpret_cast<uint2*>(memory + 2 * element),
           uint2{pairs.at[2 * q], pairs.at[2 * q + 1]});
  }
}

// To place kTo of all blocks, whose products need all rows: the warp's row is put there in its own
// block, and copied to the others.
template <int kTo, int kExchange, class Place>
__device__ void send_to_all(const Place& place, const typename Place::Rounded& pairs) {
  const auto& block = place.block;
  if (!block.has_row()) return;
  uint32_t row = block.shared + kTo + 2 * block.row() * padded(Place::kWidth);
#pragma unroll
  for (int q = 0; q < Place::kQuads; ++q) {
    if (!place.exists(q)) continue;
    store_8(row + 2 * place.column(q), {pairs.at[2 * q], pairs.at[2 * q + 1]});
  }
  finish_before_copies();
  __syncwarp();
  if (block.lane >= Place::OfBlock::kRanks || block.lane == block.rank) return;
  Address to(row, kExchange, block.lane);
  send_bytes(to.place, to.barrier, row, 2 * Place::kWidth);
}

}  // namespace sigma1::cuda
