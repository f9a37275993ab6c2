#include "sigma1/backend/cuda/four.cuh"

#include <cmath>

namespace sigma1::cuda {
namespace {

bool lies_on(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

bool packs(const Buffer& buffer) {
  return lies_on(buffer.data, 4 * (buffer.codec ? buffer.codec->bytes() : 4));
}

}  // namespace

// How its numbers were rounded is all the same to who reads them.
Input input_of(const Buffer& buffer) { return {view_of(buffer, true), packs(buffer)}; }

Output output_of(const Launch& launch, size_t o) {
  const Buffer& buffer = launch.out(o);
  Output result{view_of(buffer, true), packs(buffer)};
  if (buffer.codec == nullptr) return result;
  const Cast& cast = buffer.codec->cast();
  if (cast.rounding != Rounding::stochastic) return result;
  result.stochastic = true;
  result.mantissa_bits = static_cast<uint32_t>(cast.format.mantissa_bits);
  result.lowest_field = static_cast<uint32_t>(cast.format.min_exponent() + 127);
  result.sign_shift = static_cast<uint32_t>(32 - cast.format.bits());
  result.largest = cast.format.max_magnitude();
  result.overflow_code = encode(INFINITY, cast);
  result.nan_code = encode(NAN, cast);
  result.key = launch.random[o].key();
  result.step = {launch.step_memory, launch.random[o].step()};
  return result;
}

Input input_of(const float* numbers, int64_t count) {
  return {{const_cast<float*>(numbers), Type::fp32, false, nullptr, count}, true};
}

Output output_of(float* numbers, int64_t count) {
  return {{numbers, Type::fp32, false, nullptr, count}, true};
}

}  // namespace sigma1::cuda
