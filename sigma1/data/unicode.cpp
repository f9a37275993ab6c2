#include "sigma1/data/unicode.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include "sigma1/data/unicode_tables.h"
#include "sigma1/data/utf8.h"

namespace sigma1 {
namespace {

constexpr char32_t kFirstHangul = 0xAC00, kHangulCount = 11172;
constexpr char32_t kCapitalSigma = 0x3A3, kSigma = 0x3C3, kFinalSigma = 0x3C2;
constexpr char32_t kDottedCapitalI = 0x130, kDotAbove = 0x307;

bool is_hangul(char32_t c) { return c - kFirstHangul < kHangulCount; }

// Two levels, because a flat table of all code points would not stay in a cache: most blocks are
// like another.
class Facts {
 public:
  Facts() {
    std::vector<CharacterFacts> flat = unpack();
    blocks_.resize(flat.size() / kBlock);
    for (size_t block = 0; block < blocks_.size(); ++block) {
      std::span<const CharacterFacts> facts(flat.data() + block * kBlock, kBlock);
      blocks_[block] = place_of(facts);
    }
  }

  const CharacterFacts& operator[](char32_t c) const {
    return facts_[blocks_[c / kBlock] + c % kBlock];
  }
  std::pair<char32_t, char32_t> parts(char32_t c) const { return parts_.at(c); }

 private:
  static constexpr size_t kBlock = 128;

  static void mark(std::vector<CharacterFacts>& flat, std::span<const uint32_t> ranges,
                   CharacterFlag flag) {
    size_t at = 0;
    for (size_t i = 0; i < ranges.size(); i += 2) {
      at += ranges[i];
      for (size_t end = at + ranges[i + 1]; at < end; ++at)
        flat[at].flags = static_cast<uint8_t>(flat[at].flags | flag);
    }
  }

  std::vector<CharacterFacts> unpack() {
    namespace tables = unicode_tables;
    std::vector<CharacterFacts> flat(kLastCodePoint + 1);
    mark(flat, tables::marks(), kMark);
    mark(flat, tables::punctuation(), kPunctuation);
    mark(flat, tables::removed(), kRemoved);
    mark(flat, tables::white_space(), kWhiteSpace);
    mark(flat, tables::python_space(), kPythonSpace);
    mark(flat, tables::word_characters(), kWordCharacter);
    mark(flat, tables::cased(), kCased);
    mark(flat, tables::case_ignorable(), kCaseIgnorable);
    unpack_classes(flat);
    unpack_decompositions(flat);
    unpack_lower_case(flat);
    return flat;
  }

  static void unpack_classes(std::vector<CharacterFacts>& flat) {
    std::span<const uint32_t> numbers = unicode_tables::combining_classes();
    size_t at = 0;
    for (size_t i = 0; i < numbers.size(); i += 3) {
      at += numbers[i];
      for (size_t end = at + numbers[i + 1]; at < end; ++at)
        flat[at].combining_class = static_cast<uint8_t>(numbers[i + 2]);
    }
  }

  void unpack_decompositions(std::vector<CharacterFacts>& flat) {
    std::span<const uint32_t> numbers = unicode_tables::decompositions();
    char32_t at = 0;
    for (size_t i = 0; i < numbers.size(); i += 3) {
      at += numbers[i];
      flat[at].decomposes = true;
      parts_[at] = {numbers[i + 1], numbers[i + 2]};
    }
    for (char32_t c = kFirstHangul; is_hangul(c); ++c) flat[c].decomposes = true;
  }

  static void unpack_lower_case(std::vector<CharacterFacts>& flat) {
    std::span<const int32_t> numbers = unicode_tables::lower_case();
    int32_t first = 0;
    for (size_t i = 0; i < numbers.size(); i += 4) {
      first += numbers[i];
      auto lower = static_cast<size_t>(first), step = static_cast<size_t>(numbers[i + 2]);
      for (int32_t j = 0; j < numbers[i + 1]; ++j, lower += step)
        flat[lower].lower = numbers[i + 3];
    }
  }

  uint32_t place_of(std::span<const CharacterFacts> block) {
    for (size_t place = 0; place < facts_.size(); place += kBlock)
      if (std::equal(block.begin(), block.end(), facts_.begin() + static_cast<ptrdiff_t>(place)))
        return static_cast<uint32_t>(place);
    facts_.insert(facts_.end(), block.begin(), block.end());
    return static_cast<uint32_t>(facts_.size() - kBlock);
  }

  std::vector<uint32_t> blocks_;
  std::vector<CharacterFacts> facts_;
  std::unordered_map<char32_t, std::pair<char32_t, char32_t>> parts_;
};

const Facts& facts() {
  static const Facts all;
  return all;
}

void append_hangul(std::vector<char32_t>& characters, char32_t c) {
  constexpr char32_t kVowels = 21, kEnds = 28;
  char32_t index = c - kFirstHangul;
  characters.push_back(0x1100 + index / (kVowels * kEnds));
  characters.push_back(0x1161 + index / kEnds % kVowels);
  if (index % kEnds != 0) characters.push_back(0x11A7 + index % kEnds);
}

// Whether a letter comes before any character that is neither letter nor ignorable.
template <class Iterator>
bool meets_cased(Iterator at, Iterator end) {
  at = std::find_if(at, end, [](char32_t c) { return !facts_of(c).is(kCaseIgnorable); });
  return at != end && facts_of(*at).is(kCased);
}

}  // namespace

const CharacterFacts& facts_of(char32_t code_point) { return facts()[code_point]; }

void append_decomposed(std::vector<char32_t>& characters, char32_t code_point) {
  if (!facts_of(code_point).decomposes) return characters.push_back(code_point);
  if (is_hangul(code_point)) return append_hangul(characters, code_point);
  auto [first, second] = facts().parts(code_point);
  append_decomposed(characters, first);
  if (second != 0) append_decomposed(characters, second);
}

std::vector<char32_t> python_lower(const std::vector<char32_t>& text) {
  std::vector<char32_t> result;
  result.reserve(text.size());
  for (auto at = text.begin(); at != text.end(); ++at) {
    if (*at == kCapitalSigma) {
      bool is_final = meets_cased(std::make_reverse_iterator(at), text.rend()) &&
                      !meets_cased(at + 1, text.end());
      result.push_back(is_final ? kFinalSigma : kSigma);
    } else if (*at == kDottedCapitalI) {
      result.insert(result.end(), {U'i', kDotAbove});
    } else {
      result.push_back(*at + static_cast<char32_t>(facts_of(*at).lower));
    }
  }
  return result;
}

}  // namespace sigma1
