// Sizes that the writer of a cluster chain's source and what that source includes agree on.
// Includes nothing: the compiler of such sources knows no host library. Private to this folder.
#pragma once

namespace sigma1::cuda {

// Warps of a block side by side that share the columns of a product; there are as many for 16 rows
// of a cluster, of so many blocks, that each row of a block has one.
constexpr int column_warps(int blocks) { return blocks < 4 ? 16 / blocks : 4; }

// Columns of a row that a warp has at once, four to a lane.
inline constexpr int kQuadColumns = 128;

constexpr int rounded_up(int count, int to) { return (count + to - 1) / to * to; }

// Columns of each of some blocks that share `width` of them; the last ones may have fewer, or none.
constexpr int slice_of(int width, int blocks) { return rounded_up(width, 8 * blocks) / blocks; }

// Rows of so many numbers begin an odd number of 16 bytes apart in shared memory, so that eight of
// them are in different banks.
constexpr int padded(int numbers) { return (numbers / 8 | 1) * 8; }
// The same for rows of fp32 that are written in pairs, eight rows at once.
constexpr int padded_sums(int numbers) { return rounded_up(numbers, 32) + 8; }

// Of a row of 32 products with distances, for 8 queries of a warp at a time.
inline constexpr int kSkewStride = 40;
// What attention of a cluster's rows to kTime positions needs beside its factors: first products
// with distances, later softmax weights.
constexpr int skew_bytes(int warps) { return warps * 8 * kSkewStride * 4; }
constexpr int weights_bytes(int rows, int time) { return rows * padded(time) * 2; }
// The largest logit of each row, or the sum of its weights, by warps that share its keys.
constexpr int stats_bytes(int rows, int blocks) { return rows * column_warps(blocks) * 4; }

}  // namespace sigma1::cuda
