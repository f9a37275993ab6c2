// Products of bfloat16: by our own AMX loops where there are tiles, for oneDNN relies on a part of
// CPUID (leaf 0x1D) that virtual machines hide, and then runs an illegal instruction. Else by the
// library on AMD's processors (Zen 4 and later), where AVX-512's bfloat16 is twice as fast as fp32;
// on Intel's it was slower.
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sigma1/backend/cpu/amx_kernels.h"
#include "sigma1/backend/cpu/gemm_library.h"
#include "sigma1/numerics/convert.h"

namespace sigma1::cpu::library {
namespace {

bool processor_has_amx() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  constexpr unsigned kBf16 = 1u << 22, kTiles = 1u << 24;
  return (edx & kBf16) && (edx & kTiles) && is_supported(InstructionSet::avx512);
}

// Linux keeps the tiles' registers only for processes that ask.
bool system_allows_amx() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool has_tiles() {
  static const bool usable = processor_has_amx() && system_allows_amx();
  return usable;
}

bool library_is_fast() {
  static const bool fast =
      __builtin_cpu_is("amd") && __builtin_cpu_supports("avx512bf16") && knows_bf16();
  return fast;
}

struct alignas(64) Line {
  std::byte bytes[64];
};

std::byte* room() {
  thread_local std::vector<Line> lines(kAmxRoom / sizeof(Line));
  return lines[0].bytes;
}

}  // namespace

bool has_bf16() {
  return (has_tiles() || library_is_fast()) && instruction_set() == InstructionSet::avx512;
}

void multiply(const Gemm& p, const uint16_t* a, const uint16_t* b, float* c) {
  if (!has_tiles()) return multiply_by_library(p, a, b, c);
  multiply_with_amx({.a = {a, p.m, p.lda, !p.transpose_a},
                     .b = {b, p.n, p.ldb, p.transpose_b},
                     .k = p.k,
                     .c = c,
                     .ldc = p.ldc,
                     .alpha = p.alpha,
                     .beta = p.beta},
                    room());
}

}  // namespace sigma1::cpu::library
