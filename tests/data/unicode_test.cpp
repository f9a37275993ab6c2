#include "sigma1/data/unicode.h"

#include <gtest/gtest.h>

#include "sigma1/data/utf8.h"

namespace sigma1 {
namespace {

std::string lower_of(std::string_view text) {
  std::string result;
  for (char32_t c : python_lower(decode_utf8(text))) append_utf8(result, c);
  return result;
}

std::vector<char32_t> decomposed(char32_t c) {
  std::vector<char32_t> characters;
  append_decomposed(characters, c);
  return characters;
}

TEST(Unicode, KnowsKindsOfCharacters) {
  EXPECT_TRUE(facts_of(0x301).is(kMark));
  EXPECT_FALSE(facts_of('a').is(kMark));
  for (char32_t c : {U'!', U'~', U'$', U'^', U'`', U'¿', U'—', U'。'})
    EXPECT_TRUE(facts_of(c).is(kPunctuation)) << code_point_name(c);
  for (char32_t c : {U'€', U'½', U'a', U' '})
    EXPECT_FALSE(facts_of(c).is(kPunctuation)) << code_point_name(c);
  for (char32_t c : {0x0, 0x7F, 0xAD, 0x200D, 0xFFFD, 0xE000, 0x10FFFD})
    EXPECT_TRUE(facts_of(c).is(kRemoved)) << code_point_name(c);
  for (char32_t c : {U'\t', U'\n', U'\r', U' '}) {
    EXPECT_FALSE(facts_of(c).is(kRemoved)) << code_point_name(c);
    EXPECT_TRUE(facts_of(c).is(kWhiteSpace)) << code_point_name(c);
  }
  EXPECT_FALSE(facts_of(0x10FFFF).is(kRemoved));
}

TEST(Unicode, TellsPythonsSpaceFromTheProperty) {
  EXPECT_TRUE(facts_of(0x1C).is(kPythonSpace));
  EXPECT_FALSE(facts_of(0x1C).is(kWhiteSpace));
  EXPECT_FALSE(facts_of(0x200B).is(kPythonSpace));
  EXPECT_TRUE(facts_of(0x3000).is(kPythonSpace));
}

// Assigned after the library's tables were made.
TEST(Unicode, HasTheLibrarysVersions) {
  EXPECT_FALSE(facts_of(0x7FD).is(kMark));
  EXPECT_FALSE(facts_of(0x2E52).is(kPunctuation));
  EXPECT_TRUE(facts_of(0x1734).is(kMark));
  EXPECT_EQ(facts_of(0x10D50).lower, 32);
  EXPECT_EQ(facts_of(0x7FD).combining_class, 0);
  EXPECT_EQ(facts_of(0x301).combining_class, 230);
}

TEST(Unicode, DecomposesAllTheWay) {
  EXPECT_EQ(decomposed('x'), (std::vector<char32_t>{'x'}));
  EXPECT_EQ(decomposed(0x1E69), (std::vector<char32_t>{'s', 0x323, 0x307}));
  EXPECT_EQ(decomposed(0x212B), (std::vector<char32_t>{'A', 0x30A}));
  EXPECT_EQ(decomposed(0x2F800), (std::vector<char32_t>{0x4E3D}));
  EXPECT_EQ(decomposed(0xAC00), (std::vector<char32_t>{0x1100, 0x1161}));
  EXPECT_EQ(decomposed(0xAC01), (std::vector<char32_t>{0x1100, 0x1161, 0x11A8}));
  EXPECT_EQ(decomposed(0xD7A3), (std::vector<char32_t>{0x1112, 0x1175, 0x11C2}));
  EXPECT_EQ(decomposed(0xD7A4), (std::vector<char32_t>{0xD7A4}));
}

TEST(Unicode, LowersAsPythonDoes) {
  EXPECT_EQ(lower_of("ABC xyz ÀÉ ĀĂ ẞ Ǆ"), "abc xyz àé āă ß ǆ");
  EXPECT_EQ(lower_of("İI"), "i\u0307i");
}

TEST(Unicode, KnowsTheFinalSigma) {
  EXPECT_EQ(lower_of("ΣΑΣ"), "σας");
  EXPECT_EQ(lower_of("ΑΣ Σ ΑΣΑ"), "ας σ ασα");
  EXPECT_EQ(lower_of("ΑΣ.Α ΑΣ-Α"), "ασ.α ας-α");  // a full stop is ignorable, a hyphen is not
  EXPECT_EQ(lower_of("Α.Σ 1Σ Σ"), "α.ς 1σ σ");
}

}  // namespace
}  // namespace sigma1
