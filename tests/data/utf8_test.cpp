#include "sigma1/data/utf8.h"

#include <gtest/gtest.h>

#include "sigma1/base/error.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

using namespace std::string_literals;

std::string encode(char32_t code_point) {
  std::string text;
  append_utf8(text, code_point);
  return text;
}

TEST(Utf8, KnowsTheStandardsBoundaries) {
  EXPECT_EQ(encode(0), "\0"s);
  EXPECT_EQ(encode(0x7F), "\x7F");
  EXPECT_EQ(encode(0x80), "\xC2\x80");
  EXPECT_EQ(encode(0x7FF), "\xDF\xBF");
  EXPECT_EQ(encode(0x800), "\xE0\xA0\x80");
  EXPECT_EQ(encode(0xFFFF), "\xEF\xBF\xBF");
  EXPECT_EQ(encode(0x10000), "\xF0\x90\x80\x80");
  EXPECT_EQ(encode(0x10FFFF), "\xF4\x8F\xBF\xBF");
}

TEST(Utf8, EveryCharacterComesBack) {
  std::string text;
  std::vector<char32_t> expected;
  for (char32_t c = 0; c <= kLastCodePoint; ++c) {
    if (!is_character(c)) continue;
    append_utf8(text, c);
    expected.push_back(c);
  }
  EXPECT_EQ(expected.size(), 0x110000u - 0x800u);
  EXPECT_TRUE(decode_utf8(text) == expected);
  EXPECT_FALSE(find_utf8_fault(text));
}

TEST(Utf8, RefusesToWriteWhatIsNoCharacter) {
  for (char32_t c : {0xD800u, 0xDFFFu, 0x110000u, 0xFFFFFFFFu}) {
    std::string text = "kept";
    EXPECT_THROW(append_utf8(text, c), Error) << code_point_name(c);
    EXPECT_EQ(text, "kept");
  }
}

struct Invalid {
  std::string bytes, reason;
};

TEST(Utf8, RefusesEveryKindOfInvalidSequence) {
  const std::vector<Invalid> cases = {{"\x80", "continuation"},
                                      {"\xBF", "continuation"},
                                      {"\xC0\x80", "overlong"},
                                      {"\xC1\xBF", "overlong"},
                                      {"\xE0\x9F\xBF", "overlong"},
                                      {"\xF0\x8F\xBF\xBF", "overlong"},
                                      {"\xED\xA0\x80", "surrogate"},
                                      {"\xED\xBF\xBF", "surrogate"},
                                      {"\xF4\x90\x80\x80", "U+10FFFF"},
                                      {"\xF7\xBF\xBF\xBF", "U+10FFFF"},
                                      {"\xF8\x88\x80\x80\x80", "starts with"},
                                      {"\xFE", "starts with"},
                                      {"\xFF", "starts with"},
                                      {"\xC3(", "cut short"},
                                      {"\xE2\x82(", "cut short"},
                                      {"\xE2\xC3\xA9", "cut short"},
                                      {"\xF0\x9F\x98(", "cut short"},
                                      {"\xC3", "ends within"},
                                      {"\xE2\x82", "ends within"},
                                      {"\xF0\x9F\x98", "ends within"}};
  for (const auto& [bytes, reason] : cases) {
    std::string text = "a\xC3\xA9" + bytes;  // two good characters of three bytes come first
    auto fault = find_utf8_fault(text);
    std::string name = fmt::format("0x{:02X}", static_cast<unsigned char>(bytes[0]));
    ASSERT_TRUE(fault) << name << " " << reason;
    EXPECT_EQ(fault->offset, 3u) << name << " " << reason;
    EXPECT_NE(fault->reason.find(reason), std::string::npos) << fault->reason;
    std::string message = error_of([&] { decode_utf8(text); });
    EXPECT_NE(message.find("offset 3"), std::string::npos) << message;
    EXPECT_NE(message.find(name), std::string::npos) << message;
  }
}

TEST(Utf8, NamesCodePointsAsTheStandardDoes) {
  EXPECT_EQ(code_point_name('A'), "U+0041");
  EXPECT_EQ(code_point_name(0x1F600), "U+1F600");
}

}  // namespace
}  // namespace sigma1
