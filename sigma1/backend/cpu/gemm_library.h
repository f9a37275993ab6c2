// What gemm.cpp cuts products for: one product on the calling thread, no size of it 0.
#pragma once

#include "sigma1/backend/cpu/gemm.h"

namespace sigma1::cpu::library {

// Of fp32, by the library of the build.
void multiply(const Gemm& product, const float* a, const float* b, float* c);
std::string name();

// Of bfloat16, by the processor's matrix tiles, or by the library where it is faster than for fp32.
bool has_bf16();
void multiply(const Gemm& product, const uint16_t* a, const uint16_t* b, float* c);

// The library's own: whether it uses instructions that multiply bfloat16.
bool knows_bf16();
void multiply_by_library(const Gemm& product, const uint16_t* a, const uint16_t* b, float* c);

}  // namespace sigma1::cpu::library
