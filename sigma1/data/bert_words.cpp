#include "sigma1/data/bert_words.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sigma1/data/unicode.h"
#include "sigma1/data/utf8.h"

namespace sigma1 {
namespace {

enum class Plain : uint8_t { no, space, punctuation, letter };

// What ASCII is can be told without tables, and nearly all text is ASCII.
constexpr std::array<Plain, 256> make_plain() {
  std::array<Plain, 256> kinds{};
  for (size_t c = 33; c < 127; ++c) {
    bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    kinds[c] = letter ? Plain::letter : Plain::punctuation;
  }
  for (char c : {' ', '\t', '\n', '\r'}) kinds[static_cast<unsigned char>(c)] = Plain::space;
  return kinds;
}
constexpr std::array<Plain, 256> kPlain = make_plain();

Plain plain(char c) { return kPlain[static_cast<unsigned char>(c)]; }

constexpr char lower_ascii(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// As the library has them: the start of the sixth range is a slip of theirs (it should be 2B820)
// that vocabularies and models have long been made with.
bool is_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  if (c < 0x3400) return false;
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [c](auto range) { return c >= range.first && c <= range.second; });
}

}  // namespace

void BertWordReader::start(std::string_view text, uint32_t begin, uint32_t end,
                           uint32_t character) {
  text_ = text;
  at_ = begin;
  end_ = end;
  character_ = character;
  run_.clear();
  run_at_ = 0;
}

const BertWord* BertWordReader::next() {
  for (;;) {
    if (take_word_of_run()) return &word_;
    if (at_ == end_) return nullptr;
    if (plain(text_[at_]) == Plain::space) {
      ++at_;
      ++character_;
    } else if (read_plain_word()) {
      return &word_;
    } else {
      read_run();
    }
  }
}

// A word all of ASCII, unless what follows might still belong to it.
bool BertWordReader::read_plain_word() {
  Plain kind = plain(text_[at_]);
  if (kind == Plain::no) return false;
  uint32_t end = at_ + 1;
  if (kind == Plain::letter) {
    while (end < end_ && plain(text_[end]) == Plain::letter) ++end;
    if (end < end_ && plain(text_[end]) == Plain::no) return false;
  }
  uint32_t length = end - at_;
  word_ = {text_.substr(at_, length), length, nullptr, {at_, at_ + 1, character_}};
  if (letter_case_ == LetterCase::lower) {
    buffer_.resize(length);
    std::transform(word_.text.begin(), word_.text.end(), buffer_.begin(), lower_ascii);
    word_.text = buffer_;
  }
  at_ = end;
  character_ += length;
  return true;
}

void BertWordReader::read_run() {
  parts_.clear();
  sources_.clear();
  size_t at = at_;
  while (at < end_) {
    size_t begin = at;
    char32_t c = next_code_point(text_, at);
    const CharacterFacts& facts = facts_of(c);
    if (facts.is(kWhiteSpace) && !facts.is(kRemoved)) {
      at = begin;
      break;
    }
    Origin origin{static_cast<uint32_t>(begin), static_cast<uint32_t>(at), character_++};
    if (!facts.is(kRemoved)) take(c, origin);
  }
  if (at == at_) {  // white space that is not plain
    next_code_point(text_, at);
    ++character_;
  }
  at_ = static_cast<uint32_t>(at);
  finish_run();
}

void BertWordReader::take(char32_t code_point, Origin origin) {
  bool apart = is_chinese(code_point);
  auto add = [&](char32_t c) {
    parts_.push_back({c, false});
    sources_.push_back(origin);
  };
  if (apart) add(' ');
  if (letter_case_ == LetterCase::lower && facts_of(code_point).decomposes) {
    decomposed_.clear();
    append_decomposed(decomposed_, code_point);
    add(decomposed_.front());
    for (size_t i = 1; i < decomposed_.size(); ++i) parts_.push_back({decomposed_[i], true});
  } else {
    add(code_point);
  }
  if (apart) add(' ');
}

// Canonical order: marks by their class, those of one class as they stand.
void BertWordReader::sort_marks() {
  auto class_of = [](const Part& part) { return facts_of(part.code_point).combining_class; };
  auto is_mark = [&](const Part& part) { return class_of(part) != 0; };
  for (auto at = parts_.begin(); (at = std::find_if(at, parts_.end(), is_mark)) != parts_.end();) {
    auto end = std::find_if_not(at, parts_.end(), is_mark);
    if (end - at > 1)
      std::stable_sort(at, end,
                       [&](const Part& a, const Part& b) { return class_of(a) < class_of(b); });
    at = end;
  }
}

// Where marks changed places, the library still takes origins in the order of the text.
void BertWordReader::finish_run() {
  run_.clear();
  origins_.clear();
  run_at_ = 0;
  if (letter_case_ == LetterCase::lower) sort_marks();
  size_t sources_taken = 0;
  for (const Part& part : parts_) {
    if (!part.added) ++sources_taken;
    const CharacterFacts& facts = facts_of(part.code_point);
    bool lower = letter_case_ == LetterCase::lower;
    if (lower && facts.is(kMark)) continue;
    run_.push_back(part.code_point + static_cast<char32_t>(lower ? facts.lower : 0));
    origins_.push_back(sources_[std::max<size_t>(sources_taken, 1) - 1]);
  }
}

bool BertWordReader::take_word_of_run() {
  auto ends_word = [](char32_t c) { return c == ' ' || facts_of(c).is(kPunctuation); };
  while (run_at_ < run_.size() && run_[run_at_] == ' ') ++run_at_;
  if (run_at_ == run_.size()) return false;
  size_t end = run_at_ + 1;
  if (!ends_word(run_[run_at_])) {
    while (end < run_.size() && !ends_word(run_[end])) ++end;
  }
  buffer_.clear();
  for (size_t i = run_at_; i < end; ++i) append_utf8(buffer_, run_[i]);
  const Origin* origins = origins_.data() + run_at_;
  word_ = {buffer_, static_cast<uint32_t>(end - run_at_), origins, *origins};
  run_at_ = end;
  return true;
}

}  // namespace sigma1
