// What is known of single characters: as BERT's tokeniser sees them (the library `tokenizers`,
// which mixes versions of Unicode) and as Python's strings do, in which SQuAD's answers are
// compared.
#pragma once

#include <cstdint>
#include <vector>

namespace sigma1 {

enum CharacterFlag : uint8_t {
  kMark = 1,            // Mn: an accent, stripped
  kPunctuation = 2,     // P, and all of ASCII that is printable and no letter or digit
  kRemoved = 4,         // control, format and private characters but tab and line ends; U+FFFD
  kWhiteSpace = 8,      // the property of this name; some are kRemoved too
  kPythonSpace = 16,    // str.isspace()
  kWordCharacter = 32,  // \w of Python's regular expressions
  kCased = 64,          // for the final sigma: a word goes on after it …
  kCaseIgnorable = 128  // … where one of the first kind follows, after any of the second
};

struct CharacterFacts {
  uint8_t flags = 0;
  uint8_t combining_class = 0;
  bool decomposes = false;
  int32_t lower = 0;  // what to add for the lower case

  bool is(CharacterFlag flag) const { return (flags & flag) != 0; }
  bool operator==(const CharacterFacts&) const = default;
};

// Of a code point up to U+10FFFF.
const CharacterFacts& facts_of(char32_t code_point);

// The canonical decomposition, for most the character itself. To put marks in their order is left
// to the caller: it takes more than one character.
void append_decomposed(std::vector<char32_t>& characters, char32_t code_point);

// str.lower() of Python: U+0130 becomes two characters, and a capital sigma knows where words end.
std::vector<char32_t> python_lower(const std::vector<char32_t>& text);

}  // namespace sigma1
