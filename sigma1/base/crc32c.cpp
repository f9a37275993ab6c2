#include "sigma1/base/crc32c.h"

#include <nmmintrin.h>

#include <array>
#include <bit>
#include <cstring>

namespace sigma1 {
namespace {

static_assert(std::endian::native == std::endian::little, "words are taken in memory order");

using Table = std::array<std::array<uint32_t, 256>, 8>;

// Entry [k][b] is what byte b does to the checksum when k more bytes follow it in the same word.
constexpr Table make_table() {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // reflected
  Table table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    table[0][byte] = crc;
  }
  for (size_t k = 1; k < table.size(); ++k)
    for (size_t byte = 0; byte < 256; ++byte) {
      uint32_t shorter = table[k - 1][byte];
      table[k][byte] = (shorter >> 8) ^ table[0][shorter & 0xFF];
    }
  return table;
}

constexpr Table kTable = make_table();

struct TableSteps {
  static uint32_t word(uint32_t crc, uint64_t value) {
    value ^= crc;
    uint32_t next = 0;
    for (size_t k = 0; k < 8; ++k) next ^= kTable[7 - k][(value >> (8 * k)) & 0xFF];
    return next;
  }
  static uint32_t byte(uint32_t crc, uint8_t value) {
    return (crc >> 8) ^ kTable[0][(crc ^ value) & 0xFF];
  }
};

struct InstructionSteps {
  [[gnu::target("sse4.2")]] static uint32_t word(uint32_t crc, uint64_t value) {
    return static_cast<uint32_t>(_mm_crc32_u64(crc, value));
  }
  [[gnu::target("sse4.2")]] static uint32_t byte(uint32_t crc, uint8_t value) {
    return _mm_crc32_u8(crc, value);
  }
};

template <class Steps>
[[gnu::always_inline]] inline uint32_t run(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t crc = ~before;
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    crc = Steps::word(crc, word);
  }
  for (; i < bytes.size(); ++i) crc = Steps::byte(crc, static_cast<uint8_t>(bytes[i]));
  return ~crc;
}

[[gnu::target("sse4.2")]] uint32_t crc32c_by_instruction(std::span<const std::byte> bytes,
                                                         uint32_t before) {
  return run<InstructionSteps>(bytes, before);
}

}  // namespace

uint32_t detail::crc32c_by_table(std::span<const std::byte> bytes, uint32_t before) {
  return run<TableSteps>(bytes, before);
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  return has_instruction ? crc32c_by_instruction(bytes, before)
                         : detail::crc32c_by_table(bytes, before);
}

uint32_t crc32c(std::string_view text, uint32_t before) {
  return crc32c(std::as_bytes(std::span(text)), before);
}

}  // namespace sigma1
