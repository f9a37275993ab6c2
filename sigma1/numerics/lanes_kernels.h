// The compiler's vector types at the width of the instruction set this build is for. Everything is
// private to the source that includes it: see convert_kernels.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "sigma1/base/philox.h"

namespace sigma1::detail {
namespace {

#if defined(__AVX512F__)
constexpr size_t kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr size_t kVectorBytes = 32;
#else
constexpr size_t kVectorBytes = 16;
#endif
constexpr size_t kLanes = kVectorBytes / sizeof(uint32_t);

template <class Element>
using Vector [[gnu::vector_size(kLanes * sizeof(Element))]] = Element;
using Words = Vector<uint32_t>;
using Floats = Vector<float>;
using Mask = Vector<int32_t>;  // all ones where true

template <class Element>
Vector<Element> load(const Element* from) {
  Vector<Element> vector;
  __builtin_memcpy(&vector, from, sizeof(vector));
  return vector;
}

template <class Element>
void store(Element* to, Vector<Element> vector) {
  __builtin_memcpy(to, &vector, sizeof(vector));
}

inline Words as_words(Floats x) { return reinterpret_cast<Words>(x); }
inline Floats as_floats(Words x) { return reinterpret_cast<Floats>(x); }

// The words of a RandomStream (base/rng.h) from first_index on, a multiple of four; as many as make
// whole blocks.
inline void fill_random(uint32_t* words, size_t count, uint64_t first_index, PhiloxKey key,
                        uint64_t step) {
  uint64_t first_block = first_index / 4;
  for (size_t i = 0; i < (count + 3) / 4; ++i) {
    uint64_t block = first_block + i;
    PhiloxBlock random = philox({{static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                                  static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)}},
                                key);
    for (size_t word = 0; word < 4; ++word) words[4 * i + word] = random.word[word];
  }
}

}  // namespace
}  // namespace sigma1::detail
