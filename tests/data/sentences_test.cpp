#include "sigma1/data/sentences.h"

#include <gtest/gtest.h>

namespace sigma1 {
namespace {

using Texts = std::vector<std::string_view>;

TEST(Sentences, DocumentsArePartedByBlankLines) {
  auto found = split_documents("\n\nTitle\nFirst text. More.  \n \t\r\nSecond\r\n\n\nThird");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0], (Texts{"Title", "First text. More."}));
  EXPECT_EQ(found[1], (Texts{"Second"}));
  EXPECT_EQ(found[2], (Texts{"Third"}));
  EXPECT_TRUE(split_documents(" \n\n").empty());
}

TEST(Sentences, EndBehindMarksThatABlankFollows) {
  EXPECT_EQ(split_sentences("One. Two! Three?  Four"), (Texts{"One.", "Two!", "Three?", "Four"}));
  EXPECT_EQ(split_sentences("He said \"Yes.\" (Twice.) Then 3.5 left..."),
            (Texts{"He said \"Yes.\"", "(Twice.)", "Then 3.5 left..."}));
  EXPECT_EQ(split_sentences("It was so. \"And\" on. 12 came. Élan won."),
            (Texts{"It was so.", "\"And\" on.", "12 came.", "Élan won."}));
  EXPECT_TRUE(split_sentences("  ").empty());
}

// As tables of contents have; it would take minutes if each dot looked at all before it.
TEST(Sentences, RowsOfDotsTakeTheirLengthNotItsSquare) {
  std::string first = std::string(2'000'000, '.') + " One.", both = first + " Two";
  EXPECT_EQ(split_sentences(both), (Texts{first, "Two"}));
}

TEST(Sentences, AbbreviationsDoNotEndThem) {
  for (const char* whole :
       {"Mr. Smith met J. K. Jones in the U.S. Army", "Born (ca. 1900) in St. Ives",
        "take e.g. Apples and i.e. Pears", "it goes on. like this"}) {
    EXPECT_EQ(split_sentences(whole).size(), 1U) << whole;
  }
}

}  // namespace
}  // namespace sigma1
