#include "sigma1/data/vocabulary.h"

#include <gtest/gtest.h>

#include "sigma1/base/error.h"
#include "sigma1/data/utf8.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

// Characters from U+10000 on, where no surrogate stands in between.
std::string distinct_characters(size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) append_utf8(text, static_cast<char32_t>(0x10000 + i));
  return text;
}

TEST(Vocabulary, NumbersTheCharactersOfAllTextsByCodePoint) {
  Vocabulary vocabulary = Vocabulary::of_texts({"cab", "é😀a\n"});
  ASSERT_EQ(vocabulary.size(), 6u);
  std::vector<char32_t> expected = {'\n', 'a', 'b', 'c', 0xE9, 0x1F600};
  for (size_t id = 0; id < expected.size(); ++id) {
    EXPECT_EQ(vocabulary.code_point(id), expected[id]);
    EXPECT_EQ(vocabulary.id(expected[id]), id);
  }
}

TEST(Vocabulary, DoesNotDependOnTheOrderOfTexts) {
  EXPECT_EQ(Vocabulary::of_texts({"abc", "xyz"}), Vocabulary::of_texts({"zxy", "cba", ""}));
  EXPECT_FALSE(Vocabulary::of_texts({"abc"}) == Vocabulary::of_texts({"abd"}));
}

TEST(Vocabulary, TextComesBack) {
  std::string text = "Ein Übel — 你好 😀\n";
  Vocabulary vocabulary = Vocabulary::of_texts({text});
  std::vector<uint16_t> ids = vocabulary.encode(text);
  EXPECT_EQ(ids.size(), decode_utf8(text).size());
  EXPECT_EQ(vocabulary.decode(ids), text);
}

TEST(Vocabulary, NamesAnUnknownCharacter) {
  Vocabulary vocabulary = Vocabulary::of_texts({"ac"});
  EXPECT_THROW(vocabulary.id('b'), Error);
  EXPECT_NE(error_of([&] { vocabulary.encode("ab"); }).find("U+0062"), std::string::npos);
  EXPECT_NE(error_of([&] { vocabulary.encode("a😀"); }).find("U+1F600"), std::string::npos);
  EXPECT_THROW(Vocabulary().encode("a"), Error);
}

TEST(Vocabulary, RefusesAnUnknownId) {
  Vocabulary vocabulary = Vocabulary::of_texts({"ac"});
  EXPECT_THROW(vocabulary.code_point(2), Error);
  EXPECT_THROW(vocabulary.decode(std::vector<uint16_t>{0, 2}), Error);
}

TEST(Vocabulary, HasRoomForExactly16Bits) {
  std::string text = distinct_characters(65536);
  Vocabulary full = Vocabulary::of_texts({text});
  EXPECT_EQ(full.encode(text).back(), 65535);
  EXPECT_TRUE(full.decode(full.encode(text)) == text);
  EXPECT_THROW(Vocabulary::of_texts({distinct_characters(65537)}).encode("\U00010000"), Error);
}

TEST(Vocabulary, IsWrittenAsPlainTextAndReadBack) {
  Vocabulary vocabulary = Vocabulary::of_texts({"\nAé😀"});
  EXPECT_EQ(vocabulary.serialize(), "U+000A\nU+0041\nU+00E9\nU+1F600\n");
  EXPECT_EQ(Vocabulary::parse(vocabulary.serialize()), vocabulary);
  EXPECT_EQ(Vocabulary::parse(""), Vocabulary());
}

TEST(Vocabulary, RefusesLinesItWouldNotWrite) {
  for (const char* line :
       {"", "A", "U+", "U+41", "U+00041", "U+004g", "u+0041", "U+00e9", "U+0041 ", "U+0041\r",
        " U+0041", "U+-041", "U+D800", "U+110000", "U+FFFFFFFFFF"}) {
    std::string message =
        error_of([&] { Vocabulary::parse(std::string("U+0020\n") + line + "\nU+10FFFF\n"); });
    EXPECT_NE(message.find("line 2"), std::string::npos) << line << ": " << message;
  }
}

TEST(Vocabulary, RefusesLinesOutOfOrderOrCut) {
  EXPECT_THROW(Vocabulary::parse("U+0041\nU+0041\n"), Error);
  EXPECT_THROW(Vocabulary::parse("U+0042\nU+0041\n"), Error);
  EXPECT_THROW(Vocabulary::parse("U+0041\nU+1F60"), Error);
}

}  // namespace
}  // namespace sigma1
