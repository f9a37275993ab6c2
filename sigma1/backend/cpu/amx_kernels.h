// Products of bfloat16 by AMX tiles, on one thread. Private to the CPU backend: its source is
// compiled for AMX, so nothing here may pull in library code (see numerics/convert_kernels.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace sigma1::cpu {

// C[m, n] = alpha · A[m, k] · B[k, n] + beta · C. An operand's element lies at [row·leading + k]
// where its sums run along memory (`along`), else at [k·leading + column].
struct AmxOperand {
  const uint16_t* data;
  int64_t size;  // rows of A, columns of B
  int64_t leading;
  bool along;
};

struct AmxProduct {
  AmxOperand a, b;
  int64_t k;
  float* c;
  int64_t ldc;
  float alpha, beta;
};

// Bytes of room a product needs, aligned to 64.
inline constexpr size_t kAmxRoom = (size_t{32} * 512 + size_t{512} * 512) * 2 + size_t{32} * 32 * 4;

void multiply_with_amx(const AmxProduct& product, std::byte* room);

}  // namespace sigma1::cpu
