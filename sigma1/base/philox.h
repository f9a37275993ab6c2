// Philox4x32-10, the counter-based generator of Salmon et al. (SC'11): four random words as a pure
// function of a counter and a key. Free of library code and always inlined, because loops compiled
// for one instruction set use it too.
#pragma once

#include <cstdint>

namespace sigma1 {

struct PhiloxBlock {
  uint32_t word[4];
};

struct PhiloxKey {
  uint32_t low, high;
};

[[gnu::always_inline]] constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  constexpr uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    uint64_t product0 = kMultiplier0 * counter.word[0], product1 = kMultiplier1 * counter.word[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key.low,
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key.high,
               static_cast<uint32_t>(product0)};
    key.low += kWeyl0;
    key.high += kWeyl1;
  }
  return counter;
}

}  // namespace sigma1
