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

TEST(Vocabulary, HasRoomForAMultipleOf8OfManyCharacters) {
  for (auto [count, room] :
       {std::pair{65, 65}, {1023, 1023}, {1024, 1024}, {1025, 1032}, {3095, 3096}, {5008, 5008}}) {
    Vocabulary vocabulary = Vocabulary::of_texts({distinct_characters(static_cast<size_t>(count))});
    EXPECT_EQ(vocabulary.known(), static_cast<size_t>(count));
    EXPECT_EQ(vocabulary.size(), static_cast<size_t>(room));
    std::string lines = vocabulary.serialize();
    EXPECT_EQ(lines.starts_with("room "), room > count);
    Vocabulary read = Vocabulary::parse(lines);
    EXPECT_TRUE(read == vocabulary);
    EXPECT_EQ(read.size(), vocabulary.size());
    EXPECT_EQ(read.serialize(), lines);
  }
  EXPECT_THROW(Vocabulary::of_texts({distinct_characters(1025)}).code_point(1025), Error);
}

// As they were written before there was any.
TEST(Vocabulary, WithoutALineOfRoomHasNone) {
  std::string lines = Vocabulary::of_texts({distinct_characters(1025)}).serialize();
  Vocabulary read = Vocabulary::parse(lines.substr(lines.find('\n') + 1));
  EXPECT_EQ(read.size(), 1025U);
  EXPECT_TRUE(read == Vocabulary::of_texts({distinct_characters(1025)}));
}

TEST(Vocabulary, RefusesRoomItWouldNotWrite) {
  for (const char* lines : {"room 1\nU+0041\n", "room 65537\nU+0041\n", "room x\nU+0041\n",
                            "room -1\n", "room 8", "room \nU+0041\n"}) {
    SCOPED_TRACE(lines);
    EXPECT_NE(error_of([&] { Vocabulary::parse(lines); }).find("line 1 of the vocabulary"),
              std::string::npos);
  }
}

TEST(ByteVocabulary, TakesAnything) {
  Vocabulary bytes = Vocabulary::bytes();
  EXPECT_EQ(bytes.size(), 256u);
  EXPECT_EQ(bytes.known(), 256u);
  std::string all;
  for (int i = 0; i < 256; ++i) all += static_cast<char>(i);
  std::vector<uint16_t> ids = bytes.encode(all);
  for (uint16_t i = 0; i < 256; ++i) EXPECT_EQ(ids[i], i);
  EXPECT_EQ(bytes.decode(ids), all);
  EXPECT_EQ(bytes.token_name(), "byte");
  EXPECT_THROW(bytes.decode(std::vector<uint16_t>{256}), Error);
}

// GPT-2's 50257 take room for 50304, which products like better.
TEST(IdVocabulary, IsRoundedUpForTheModelAlone) {
  Vocabulary ids = Vocabulary::of_ids(50257);
  EXPECT_EQ(ids.known(), 50257u);
  EXPECT_EQ(ids.size(), 50304u);
  EXPECT_EQ(Vocabulary::of_ids(64).size(), 64u);
  EXPECT_EQ(Vocabulary::of_ids(65536).size(), 65536u);
  EXPECT_EQ(ids.encode("50256 0\n 17"), (std::vector<uint16_t>{50256, 0, 17}));
  EXPECT_EQ(ids.encode(" "), std::vector<uint16_t>{});
  EXPECT_EQ(ids.decode(std::vector<uint16_t>{50256, 0}), "50256 0 ");
  EXPECT_EQ(ids.token_name(), "token");
}

TEST(IdVocabulary, MistakesAreNamed) {
  Vocabulary ids = Vocabulary::of_ids(100);
  EXPECT_NE(error_of([&] { ids.encode("3 the"); }).find("'the'"), std::string::npos);
  EXPECT_NE(error_of([&] { ids.encode("3 -1"); }).find("'-1'"), std::string::npos);
  EXPECT_NE(error_of([&] { ids.encode("100"); }).find("below 100"), std::string::npos);
  EXPECT_THROW(ids.decode(std::vector<uint16_t>{100}), Error);
  for (int64_t count : {0, -1, 65537}) EXPECT_THROW(Vocabulary::of_ids(count), Error);
}

TEST(Vocabulary, EveryKindCanBeWrittenAndRead) {
  for (const Vocabulary& each :
       {Vocabulary::bytes(), Vocabulary::of_ids(50257), Vocabulary::of_texts({"abc"})}) {
    EXPECT_TRUE(Vocabulary::parse(each.serialize()) == each) << each.serialize();
  }
  EXPECT_FALSE(Vocabulary::bytes() == Vocabulary::of_ids(256));
  EXPECT_FALSE(Vocabulary::of_ids(257) == Vocabulary::of_ids(256));
  for (const char* text : {"ids x\n", "ids \n", "ids 0\n", "ids 70000\n", "ids 5", "bytes"}) {
    EXPECT_THROW(Vocabulary::parse(text), Error) << text;
  }
}

}  // namespace
}  // namespace sigma1
