#include "sigma1/backend/cpu/amx_kernels.h"

#include <immintrin.h>

namespace sigma1::cpu {
namespace {

// A tile holds 16 rows of 16 pairs; a pair is two bfloat16 that follow each other in k. The loop
// computes 32 × 32 results from two tiles of A and two of B at a time.
constexpr int64_t kTileRows = 16, kTileDepth = 32, kTileCodes = kTileRows * kTileDepth;
constexpr int64_t kBlock = 2 * kTileRows;
// What is packed at a time: a panel of A stays in the first-level cache, B in the second.
constexpr int64_t kDepth = 512, kWidth = 512;
static_assert(kAmxRoom == (kBlock + kWidth) * kDepth * 2 + kBlock * kBlock * 4);

int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The lowest `count` bits, none for less than one.
uint32_t low_bits(int64_t count) { return count >= 32 ? ~0u : count <= 0 ? 0 : (1u << count) - 1; }

struct TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// 16 × 16 words of 32 bits, in registers.
using Words = __m512i[16];

// Row i: the pairs of element x + i from k on; zeros beyond the ends.
void load_along(const AmxOperand& from, int64_t x, int64_t k, int64_t end, Words& words) {
  for (int64_t i = 0; i < 16; ++i) {
    __mmask32 mask = x + i < from.size ? low_bits(end - k) : 0;
    words[i] = _mm512_maskz_loadu_epi16(mask, from.data + (x + i) * from.leading + k);
  }
}

// Row i: pair k/2 + i of the elements from x on.
void load_across(const AmxOperand& from, int64_t x, int64_t k, int64_t end, Words& words) {
  auto mask = static_cast<__mmask16>(low_bits(from.size - x));
  auto row = [&](int64_t at) {
    return _mm512_cvtepu16_epi32(
        _mm256_maskz_loadu_epi16(at < end ? mask : 0, from.data + at * from.leading + x));
  };
  for (int64_t i = 0; i < 16; ++i) {
    __m512i second = _mm512_slli_epi32(row(k + 2 * i + 1), 16);
    words[i] = _mm512_or_si512(row(k + 2 * i), second);
  }
}

void transpose(Words& r) {
  Words t;
  for (int i = 0; i < 16; i += 2) {
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  }
  // Quarter q of r[4g + j] holds column 4q + j of rows 4g to 4g + 3.
  for (int j = 0; j < 4; ++j) {
    __m512i even_low = _mm512_shuffle_i32x4(r[j], r[4 + j], 0x88);
    __m512i even_high = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0x88);
    __m512i odd_low = _mm512_shuffle_i32x4(r[j], r[4 + j], 0xDD);
    __m512i odd_high = _mm512_shuffle_i32x4(r[8 + j], r[12 + j], 0xDD);
    t[j] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    t[4 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    t[8 + j] = _mm512_shuffle_i32x4(even_low, even_high, 0xDD);
    t[12 + j] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xDD);
  }
  for (int i = 0; i < 16; ++i) r[i] = t[i];
}

// Elements [x, x + 32) and k in [begin, end) as tiles, two for every 32 of k. A's tiles have an
// element's pairs in a row, B's in a column.
void pack_panel(const AmxOperand& from, bool pairs_in_rows, int64_t x, int64_t begin, int64_t end,
                uint16_t* to) {
  for (int64_t k = begin; k < end; k += kTileDepth) {
    for (int64_t half = 0; half < kBlock; half += kTileRows) {
      Words words;
      if (from.along) {
        load_along(from, x + half, k, end, words);
      } else {
        load_across(from, x + half, k, end, words);
      }
      if (from.along != pairs_in_rows) transpose(words);
      for (int i = 0; i < 16; ++i) _mm512_store_si512(to + i * kTileDepth, words[i]);
      to += kTileCodes;
    }
  }
}

// 32 × 32 sums from the packed panels.
void multiply_panels(const uint16_t* a, const uint16_t* b, int64_t depth, float* sums) {
  constexpr int kRowBytes = 64;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int64_t k = 0; k < depth; k += kTileDepth, a += 2 * kTileCodes, b += 2 * kTileCodes) {
    _tile_loadd(4, a, kRowBytes);
    _tile_loadd(6, b, kRowBytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_loadd(7, b + kTileCodes, kRowBytes);
    _tile_dpbf16ps(1, 4, 7);
    _tile_loadd(5, a + kTileCodes, kRowBytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  constexpr int kSumsBytes = kBlock * sizeof(float);
  _tile_stored(0, sums, kSumsBytes);
  _tile_stored(1, sums + kTileRows, kSumsBytes);
  _tile_stored(2, sums + kTileRows * kBlock, kSumsBytes);
  _tile_stored(3, sums + kTileRows * kBlock + kTileRows, kSumsBytes);
}

// Block (row, column) of C = alpha·sums + beta·C; with a beta of 0, C is not read.
void write_block(const AmxProduct& p, const float* sums, int64_t row, int64_t column, float beta) {
  __m512 alphas = _mm512_set1_ps(p.alpha), betas = _mm512_set1_ps(beta);
  int64_t rows = smaller(kBlock, p.a.size - row);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < kBlock; j += 16) {
      auto mask = static_cast<__mmask16>(low_bits(p.b.size - column - j));
      float* c = p.c + (row + i) * p.ldc + column + j;
      __m512 values = _mm512_mul_ps(alphas, _mm512_load_ps(sums + i * kBlock + j));
      if (beta != 0) values = _mm512_fmadd_ps(betas, _mm512_maskz_loadu_ps(mask, c), values);
      _mm512_mask_storeu_ps(c, mask, values);
    }
  }
}

}  // namespace

void multiply_with_amx(const AmxProduct& p, std::byte* room) {
  auto* packed_a = reinterpret_cast<uint16_t*>(room);
  uint16_t* packed_b = packed_a + kBlock * kDepth;
  auto* sums = reinterpret_cast<float*>(packed_b + kWidth * kDepth);
  TileShapes shapes;
  _tile_loadconfig(&shapes);
  for (int64_t begin = 0; begin < p.k; begin += kDepth) {
    int64_t end = smaller(p.k, begin + kDepth);
    float beta = begin == 0 ? p.beta : 1;
    for (int64_t left = 0; left < p.b.size; left += kWidth) {
      int64_t right = smaller(p.b.size, left + kWidth);
      for (int64_t column = left; column < right; column += kBlock) {
        pack_panel(p.b, false, column, begin, end, packed_b + (column - left) * kDepth);
      }
      for (int64_t row = 0; row < p.a.size; row += kBlock) {
        pack_panel(p.a, true, row, begin, end, packed_a);
        for (int64_t column = left; column < right; column += kBlock) {
          multiply_panels(packed_a, packed_b + (column - left) * kDepth, end - begin, sums);
          write_block(p, sums, row, column, beta);
        }
      }
    }
  }
  _tile_release();
}

}  // namespace sigma1::cpu
