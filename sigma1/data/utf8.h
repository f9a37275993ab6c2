// UTF-8 read strictly, because a character model learns whatever it is given: a wrong byte must
// stop the run where it stands and not become a character of its own.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sigma1 {

// The largest code point; surrogates below it are not characters either.
inline constexpr char32_t kLastCodePoint = 0x10FFFF;

bool is_character(char32_t code_point);

// As the Unicode standard writes it: U+0041, U+1F600.
std::string code_point_name(char32_t code_point);

// Where the first ill-formed sequence begins, and what is wrong with it.
struct Utf8Fault {
  size_t offset;
  std::string reason;
};
std::optional<Utf8Fault> find_utf8_fault(std::string_view text);

// The code point at `offset`, which is moved behind it; texts need not be decoded as a whole.
// Throws Error with the byte's offset when there is none.
char32_t next_code_point(std::string_view text, size_t& offset);

std::vector<char32_t> decode_utf8(std::string_view text);

// Throws Error for a surrogate or a number above U+10FFFF.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace sigma1
