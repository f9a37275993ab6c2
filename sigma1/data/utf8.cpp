#include "sigma1/data/utf8.h"

#include <cstdint>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

// A length of 0 says that there is no character, and `fault` why.
struct Step {
  char32_t code_point;
  size_t length;
  const char* fault;
};

constexpr Step fault(const char* reason) { return {0, 0, reason}; }

// What the first byte says: how many bytes, its own bits, and the least code point that needs them.
struct Lead {
  size_t length;
  char32_t bits, least;
};

Lead read_lead(unsigned char byte) {
  if (byte >= 0xC0 && byte < 0xE0) return {2, byte & 0x1Fu, 0x80};
  if (byte >= 0xE0 && byte < 0xF0) return {3, byte & 0x0Fu, 0x800};
  if (byte >= 0xF0 && byte < 0xF8) return {4, byte & 0x07u, 0x10000};
  return {0, 0, 0};
}

Step read_sequence(std::string_view text, size_t offset) {
  auto first = static_cast<unsigned char>(text[offset]);
  if (first < 0x80) return {first, 1, nullptr};
  if (first < 0xC0) return fault("a continuation byte without a first byte");
  Lead lead = read_lead(first);
  if (lead.length == 0) return fault("no character starts with this byte");
  char32_t code_point = lead.bits;
  for (size_t i = 1; i < lead.length; ++i) {
    if (offset + i == text.size()) return fault("the text ends within a character");
    auto byte = static_cast<unsigned char>(text[offset + i]);
    if ((byte & 0xC0) != 0x80) return fault("a character is cut short by the next");
    code_point = code_point << 6 | (byte & 0x3Fu);
  }
  if (code_point < lead.least) return fault("an overlong form");
  if (code_point > kLastCodePoint) return fault("above U+10FFFF");
  if (!is_character(code_point)) return fault("a surrogate");
  return {code_point, lead.length, nullptr};
}

std::string describe(std::string_view text, size_t offset, const char* reason) {
  return fmt::format("byte 0x{:02X}: {}", static_cast<unsigned char>(text[offset]), reason);
}

}  // namespace

bool is_character(char32_t code_point) {
  return code_point <= kLastCodePoint && (code_point < 0xD800 || code_point > 0xDFFF);
}

std::string code_point_name(char32_t code_point) {
  return fmt::format("U+{:04X}", static_cast<uint32_t>(code_point));
}

std::optional<Utf8Fault> find_utf8_fault(std::string_view text) {
  for (size_t offset = 0; offset < text.size();) {
    Step step = read_sequence(text, offset);
    if (step.fault) return Utf8Fault{offset, describe(text, offset, step.fault)};
    offset += step.length;
  }
  return std::nullopt;
}

char32_t next_code_point(std::string_view text, size_t& offset) {
  if (offset >= text.size())
    throw Bug("code point asked for at byte {} of a text of {}", offset, text.size());
  Step step = read_sequence(text, offset);
  if (step.fault)
    throw Error("expected UTF-8, got {} (at byte offset {})", describe(text, offset, step.fault),
                offset);
  offset += step.length;
  return step.code_point;
}

std::vector<char32_t> decode_utf8(std::string_view text) {
  std::vector<char32_t> code_points;
  code_points.reserve(text.size());
  for (size_t offset = 0; offset < text.size();)
    code_points.push_back(next_code_point(text, offset));
  return code_points;
}

void append_utf8(std::string& text, char32_t code_point) {
  if (!is_character(code_point))
    throw Error("expected a code point up to U+10FFFF that is no surrogate, got {}",
                code_point_name(code_point));
  auto continuation = [&](int shift) {
    text += static_cast<char>(0x80 | (code_point >> shift & 0x3F));
  };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xC0 | code_point >> 6);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xE0 | code_point >> 12);
  } else {
    text += static_cast<char>(0xF0 | code_point >> 18);
  }
  if (code_point >= 0x10000) continuation(12);
  if (code_point >= 0x800) continuation(6);
  if (code_point >= 0x80) continuation(0);
}

}  // namespace sigma1
