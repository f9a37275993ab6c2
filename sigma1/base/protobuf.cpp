#include "sigma1/base/protobuf.h"

#include <bit>

namespace sigma1::protobuf {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are written in memory order");

enum WireKind : uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class T>
std::string raw(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string key(uint64_t field, WireKind kind) { return varint(field << 3 | kind); }

}  // namespace

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7F) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string number_field(uint64_t field, uint64_t value) {
  return key(field, kVarint) + varint(value);
}
std::string double_field(uint64_t field, double value) { return key(field, kFixed64) + raw(value); }
std::string float_field(uint64_t field, float value) { return key(field, kFixed32) + raw(value); }
std::string bytes_head(uint64_t field, uint64_t size) { return key(field, kBytes) + varint(size); }
std::string bytes_field(uint64_t field, std::string_view content) {
  return bytes_head(field, content.size()) + std::string(content);
}
std::string doubles_field(uint64_t field, std::span<const double> values) {
  return bytes_field(field, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

}  // namespace sigma1::protobuf
