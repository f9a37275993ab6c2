#include "sigma1/base/rng.h"

#include <cmath>
#include <numbers>

namespace sigma1 {
namespace {

// The finaliser of SplitMix64: every input bit reaches every output bit.
uint64_t mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

PhiloxKey make_key(uint64_t seed, std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  uint64_t key = mix(hash ^ mix(seed + 0x9E3779B97F4A7C15));
  return {static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)};
}

double to_open_unit_interval(uint32_t word) { return (word + 0.5) * 0x1p-32; }

}  // namespace

RandomStream::RandomStream(uint64_t seed, std::string_view name, uint64_t step)
    : key_(make_key(seed, name)), step_(step) {}

double RandomStream::uniform(uint64_t index) const { return to_open_unit_interval(bits(index)); }

double RandomStream::normal(uint64_t index) const {
  // Box–Muller: elements 2j and 2j+1 are the cosine and sine of one pair of words.
  PhiloxBlock words = block(index / 4);
  size_t pair = index % 4 / 2 * 2;
  double radius = std::sqrt(-2 * std::log(to_open_unit_interval(words.word[pair])));
  double angle = 2 * std::numbers::pi * to_open_unit_interval(words.word[pair + 1]);
  return radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle));
}

}  // namespace sigma1
