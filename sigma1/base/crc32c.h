// CRC-32C (Castagnoli), the checksum that TensorBoard's files are framed with and our checkpoints
// are guarded by: every processor of today has an instruction for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace sigma1 {

// Of one piece, or going on from the checksum of what stands before it: crc32c(b, crc32c(a)) is
// that of a and b joined.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
uint32_t crc32c(std::string_view text, uint32_t before = 0);

namespace detail {
// What a processor without the instruction runs; here so that it is tested on those that have it.
uint32_t crc32c_by_table(std::span<const std::byte> bytes, uint32_t before);
}  // namespace detail

}  // namespace sigma1
