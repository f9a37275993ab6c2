#include "sigma1/data/sentences.h"

#include <algorithm>

namespace sigma1 {
namespace {

constexpr std::string_view kBlanks = " \t\r\v\f";

std::string_view trimmed(std::string_view text) {
  size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

bool is_abbreviation(std::string_view word) {
  constexpr std::string_view kKnown[] = {
      "Mr", "Mrs",  "Ms",  "Dr",  "Prof", "St",  "Jr", "Sr",   "vs",  "No", "Mt", "Gen", "Col",
      "Lt", "Capt", "Rev", "Hon", "Inc",  "Ltd", "Co", "Corp", "Fig", "cf", "ca", "etc"};
  bool is_letter = word.size() == 1;
  bool has_dot = word.find('.') != std::string_view::npos;
  return is_letter || has_dot || std::ranges::find(kKnown, word) != std::end(kKnown);
}

// What stands before the mark at `mark`, without an opening bracket or quote.
std::string_view word_before(std::string_view line, size_t mark) {
  size_t begin = line.find_last_of(kBlanks, mark);
  std::string_view word = line.substr(begin == std::string_view::npos ? 0 : begin + 1);
  word = word.substr(0, static_cast<size_t>(line.data() + mark - word.data()));
  size_t letter = word.find_first_not_of("(['\"");
  return letter == std::string_view::npos ? word : word.substr(letter);
}

// Behind closing quotes and brackets, plain or curly.
size_t skip_closing(std::string_view line, size_t at) {
  constexpr std::string_view kClosing[] = {"\"", "'", ")", "]", "\u201d", "\u2019", "\u00bb"};
  for (bool found = true; found;) {
    found = false;
    for (std::string_view mark : kClosing) {
      if (!line.substr(at).starts_with(mark)) continue;
      at += mark.size();
      found = true;
    }
  }
  return at;
}

}  // namespace

std::vector<std::vector<std::string_view>> split_documents(std::string_view text) {
  std::vector<std::vector<std::string_view>> documents;
  bool open = false;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = trimmed(text.substr(begin, end - begin));
    if (!line.empty() && !open) documents.emplace_back();
    if (!line.empty()) documents.back().push_back(line);
    open = !line.empty();
    begin = end + 1;
  }
  return documents;
}

std::vector<std::string_view> split_sentences(std::string_view line) {
  std::vector<std::string_view> sentences;
  size_t begin = 0;
  auto add = [&](size_t end) {
    std::string_view sentence = trimmed(line.substr(begin, end - begin));
    if (!sentence.empty()) sentences.push_back(sentence);
    begin = end;
  };
  for (size_t mark = line.find_first_of(".!?"); mark != std::string_view::npos;) {
    size_t end = skip_closing(line, mark + 1);
    bool blank = end < line.size() && kBlanks.find(line[end]) != std::string_view::npos;
    size_t next = line.find_first_not_of(kBlanks, end);
    bool goes_on = next == std::string_view::npos || (line[next] >= 'a' && line[next] <= 'z');
    // Last, as it reads the whole word: a row of dots would take its length squared.
    auto dotted = [&] { return line[mark] == '.' && is_abbreviation(word_before(line, mark)); };
    if (blank && !goes_on && !dotted()) add(end);
    mark = line.find_first_of(".!?", end);
  }
  add(line.size());
  return sentences;
}

}  // namespace sigma1
