// The library `tokenizers` said what is right (tests/interop/word_piece_reference.py); what it
// leaves open is checked by hand.
#include "sigma1/data/word_piece.h"

#include <nlohmann/json.hpp>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/base/parallel.h"
#include "sigma1/data/utf8.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

const std::string kFolder = SIGMA1_TEST_DATA;

WordPiece pieces(LetterCase letter_case = LetterCase::lower) {
  return WordPiece::load(kFolder + "/word_piece_vocabulary.txt", letter_case);
}

std::vector<std::string> words(const WordPiece& pieces, std::string_view text,
                               SpecialTokens special = SpecialTokens::whole) {
  std::vector<std::string> result;
  for (const WordPieceToken& token : pieces.encode(text, special))
    result.push_back(pieces.token(token.id));
  return result;
}
using Words = std::vector<std::string>;

size_t byte_of_character(std::string_view text, uint32_t character) {
  size_t at = 0;
  for (uint32_t i = 0; i < character; ++i) next_code_point(text, at);
  return at;
}

TEST(WordPiece, AgreesWithTheReference) {
  auto reference = nlohmann::json::parse(read_file(kFolder + "/word_piece_reference.json"));
  const WordPiece both[] = {pieces(LetterCase::lower), pieces(LetterCase::as_written)};
  ASSERT_GT(reference["samples"].size(), 200u);
  for (const auto& sample : reference["samples"]) {
    std::string text = sample["text"];
    nlohmann::json ids = nlohmann::json::array(), offsets = nlohmann::json::array();
    for (const WordPieceToken& token : both[sample["cased"].get<bool>() ? 1 : 0].encode(text)) {
      ids.push_back(token.id);
      offsets.push_back({token.character_begin, token.character_end});
      EXPECT_EQ(token.byte_begin, byte_of_character(text, token.character_begin)) << sample;
      EXPECT_EQ(token.byte_end, byte_of_character(text, token.character_end)) << sample;
    }
    EXPECT_EQ(ids, sample["ids"]) << sample;
    EXPECT_EQ(offsets, sample["offsets"]) << sample;
  }
}

TEST(WordPiece, TakesTheLongestPieceFirst) {
  WordPiece few("[UNK]\nun\nuna\n##a\n##ff\n##ffable\n##able\n", LetterCase::lower);
  EXPECT_EQ(words(few, "unaffable unaa UNFF unx"),
            (Words{"una", "##ffable", "una", "##a", "un", "##ff", "[UNK]"}));
}

TEST(WordPiece, SplitsSpecialTokensOnlyWhenAsked) {
  WordPiece all = pieces();
  EXPECT_EQ(words(all, "a[MASK]b"), (Words{"a", "[MASK]", "b"}));
  EXPECT_EQ(words(all, "a[MASK]", SpecialTokens::split), (Words{"a", "[", "mask", "]"}));
  EXPECT_EQ(all.id("[MASK]"), 4u);
  EXPECT_EQ(all.find("[mask]"), std::nullopt);
}

TEST(WordPiece, NeedsNoOtherSpecialTokenThanUnknown) {
  WordPiece few("a\n[UNK]", LetterCase::lower);
  EXPECT_EQ(words(few, "a [CLS]"), (Words{"a", "[UNK]", "[UNK]", "[UNK]"}));
  EXPECT_NE(error_of([&] { few.id("[CLS]"); }).find("expected a line [CLS]"), std::string::npos);
  EXPECT_EQ(few.size(), 2u);
  EXPECT_THROW(few.token(2), Error);
}

TEST(WordPiece, ReadsLinesAsTheLibraryDoes) {
  // Blanks at the end are no part of a token, an empty line has an id, and of two lines the last
  // counts.
  WordPiece odd("[UNK] \na\t\r\n\nb\u2003\na\n", LetterCase::lower);
  EXPECT_EQ(odd.size(), 5u);
  EXPECT_EQ(odd.find("a"), 4u);
  EXPECT_EQ(odd.find("b"), 3u);
  EXPECT_EQ(odd.find(""), 2u);
}

class WordPieceFile : public TemporaryFolderTest {};

TEST_F(WordPieceFile, NamesAVocabularyThatIsNone) {
  std::string path = write("vocab.txt", "a\nb\n");
  std::string message = error_of([&] { WordPiece::load(path, LetterCase::lower); });
  EXPECT_NE(message.find(path), std::string::npos) << message;
  EXPECT_NE(message.find("[UNK]"), std::string::npos) << message;
}

TEST(WordPiece, RefusesWhatIsNotUtf8) { EXPECT_THROW(pieces().encode("a \xFF"), Error); }

// More words than an encoder keeps, so that some are cut anew each time.
TEST(WordPiece, GivesTheSameOnAnyNumberOfThreads) {
  WordPiece all = pieces();
  std::vector<std::string> texts;
  for (int i = 0; i < 3000; ++i) {
    std::string text = "[CLS] Café ";
    for (int j = 0; j < 60; ++j) text += std::to_string(i * 60 + j) + "é, ";
    texts.push_back(text);
  }
  std::vector<std::string_view> views(texts.begin(), texts.end());
  set_thread_count(4);
  auto tokens = all.encode_all(views);
  auto ids = all.ids_of_all(views);
  set_thread_count(0);
  ASSERT_EQ(tokens.size(), texts.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_EQ(tokens[i], all.encode(texts[i])) << i;
    ASSERT_EQ(ids[i].size(), tokens[i].size());
    for (size_t j = 0; j < ids[i].size(); ++j) EXPECT_EQ(ids[i][j], tokens[i][j].id);
  }
}

}  // namespace
}  // namespace sigma1
