// What gemm.cpp cuts products for: one product on the calling thread, no size of it 0. Of fp32 by
// the library of the build, of bfloat16 by the processor's matrix tiles.
#pragma once

#include "sigma1/backend/cpu/gemm.h"

namespace sigma1::cpu::library {

void multiply(const Gemm& product, const float* a, const float* b, float* c);
std::string name();

bool has_bf16();
void multiply(const Gemm& product, const uint16_t* a, const uint16_t* b, float* c);

}  // namespace sigma1::cpu::library
