#include "sigma1/data/vocabulary.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "sigma1/base/error.h"
#include "sigma1/data/utf8.h"

namespace sigma1 {
namespace {

constexpr uint32_t kUnknown = UINT32_MAX;
constexpr size_t kMostIds = size_t{1} << 16;

size_t rounded_up(size_t count, size_t step) { return (count + step - 1) / step * step; }

// Of few characters a row is short, and the models that are known by their numbers stay as they
// are.
size_t room_for(size_t characters) {
  constexpr size_t kFew = 1024, kStep = 8;
  return characters < kFew ? characters : rounded_up(characters, kStep);
}

char32_t parse_code_point(std::string_view line, size_t number) {
  uint32_t value = 0;
  if (line.starts_with("U+"))
    std::from_chars(line.data() + 2, line.data() + line.size(), value, 16);
  // Only the one way serialize() writes it, so that cut or padded lines are noticed.
  if (!is_character(value) || code_point_name(value) != line)
    throw Error("expected a character as U+XXXX in line {} of the vocabulary, got '{}'", number,
                line);
  return value;
}

constexpr std::string_view kBytes = "bytes\n", kIds = "ids ", kRoom = "room ";

std::optional<uint32_t> parse_id(std::string_view word) {
  uint32_t id = 0;
  auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), id);
  if (fault != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return id;
}

size_t room_of(std::string_view line) {
  std::optional<uint32_t> room = parse_id(line.substr(kRoom.size()));
  if (!room || *room > kMostIds)
    throw Error("expected room for at most {} ids in line 1 of the vocabulary, got '{}'", kMostIds,
                line);
  return *room;
}

std::vector<std::string_view> words_of(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n";
  std::vector<std::string_view> words;
  for (size_t begin; (begin = text.find_first_not_of(kSpace)) != std::string_view::npos;) {
    text.remove_prefix(begin);
    size_t length = std::min(text.find_first_of(kSpace), text.size());
    words.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return words;
}

}  // namespace

Vocabulary Vocabulary::bytes() { return {Kind::bytes, 256}; }

Vocabulary Vocabulary::of_ids(int64_t count) {
  if (count < 1 || count > static_cast<int64_t>(kMostIds)) {
    throw Error("vocabulary: expected from 1 to {} ids, which take 16 bits, got {}", kMostIds,
                count);
  }
  return {Kind::ids, static_cast<size_t>(count)};
}

std::string_view Vocabulary::token_name() const {
  if (kind_ == Kind::characters) return "character";
  return kind_ == Kind::bytes ? "byte" : "token";
}

size_t Vocabulary::known() const {
  return kind_ == Kind::characters ? code_points_.size() : count_;
}

size_t Vocabulary::size() const {
  constexpr size_t kStep = 64;
  if (kind_ == Kind::characters) return room_;
  return kind_ == Kind::ids ? rounded_up(count_, kStep) : known();
}

void Vocabulary::expect_known(size_t id) const {
  if (id < known()) return;
  throw Error("expected a token id below {}, the size of the vocabulary, got {}", known(), id);
}

Vocabulary::Vocabulary(std::vector<char32_t> ascending, size_t room)
    : code_points_(std::move(ascending)), room_(std::max(room, code_points_.size())) {
  if (!code_points_.empty()) ids_.assign(code_points_.back() + 1, kUnknown);
  for (size_t i = 0; i < code_points_.size(); ++i) ids_[code_points_[i]] = static_cast<uint32_t>(i);
}

Vocabulary Vocabulary::of_texts(const std::vector<std::string_view>& texts) {
  std::vector<bool> seen(kLastCodePoint + 1);
  for (std::string_view text : texts)
    for (size_t offset = 0; offset < text.size();) seen[next_code_point(text, offset)] = true;
  std::vector<char32_t> ascending;
  for (char32_t c = 0; c <= kLastCodePoint; ++c)
    if (seen[c]) ascending.push_back(c);
  size_t room = room_for(ascending.size());
  return Vocabulary(std::move(ascending), room);
}

Vocabulary Vocabulary::parse(std::string_view lines) {
  if (lines == kBytes) return bytes();
  if (lines.starts_with(kIds) && lines.ends_with('\n')) {
    std::string_view number = lines.substr(kIds.size(), lines.size() - kIds.size() - 1);
    if (std::optional<uint32_t> count = parse_id(number)) return of_ids(*count);
    throw Error("expected a number of ids in line 1 of the vocabulary, got '{}'", number);
  }
  size_t room = 0, first = 1;
  size_t first_end = lines.find('\n');
  if (lines.starts_with(kRoom) && first_end != std::string_view::npos) {
    room = room_of(lines.substr(0, first_end));
    lines.remove_prefix(first_end + 1);
    ++first;
  }
  std::vector<char32_t> ascending;
  while (!lines.empty()) {
    size_t number = ascending.size() + first;
    size_t end = lines.find('\n');
    if (end == std::string_view::npos)
      throw Error("expected a line end after line {} of the vocabulary, got '{}' and no more",
                  number, lines);
    char32_t code_point = parse_code_point(lines.substr(0, end), number);
    if (!ascending.empty() && code_point <= ascending.back())
      throw Error("expected a character above {} in line {} of the vocabulary, got {}",
                  code_point_name(ascending.back()), number, code_point_name(code_point));
    ascending.push_back(code_point);
    lines.remove_prefix(end + 1);
  }
  if (room > 0 && room <= ascending.size())
    throw Error("expected room for more than {} characters in line 1 of the vocabulary, got {}",
                ascending.size(), room);
  return Vocabulary(std::move(ascending), room);
}

std::string Vocabulary::serialize() const {
  if (kind_ == Kind::bytes) return std::string(kBytes);
  if (kind_ == Kind::ids) return fmt::format("{}{}\n", kIds, count_);
  std::string lines;
  if (room_ > known()) lines = fmt::format("{}{}\n", kRoom, room_);
  for (char32_t code_point : code_points_) lines += code_point_name(code_point) + '\n';
  return lines;
}

uint32_t Vocabulary::id(char32_t code_point) const {
  uint32_t id = code_point < ids_.size() ? ids_[code_point] : kUnknown;
  if (id == kUnknown)
    throw Error("expected a character of the vocabulary ({} characters), got {}", known(),
                code_point_name(code_point));
  return id;
}

char32_t Vocabulary::code_point(size_t id) const {
  expect_known(id);
  return code_points_[id];
}

std::vector<uint16_t> Vocabulary::encode(std::string_view text) const {
  if (size() > kMostIds)
    throw Error("expected a vocabulary of at most {} characters, whose ids take 16 bits, got {}",
                kMostIds, size());
  std::vector<uint16_t> ids;
  if (kind_ == Kind::bytes) {
    for (char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    return ids;
  }
  if (kind_ == Kind::ids) {
    for (std::string_view word : words_of(text)) {
      std::optional<uint32_t> id = parse_id(word);
      if (!id) throw Error("expected token ids, numbers with spaces between, got '{}'", word);
      expect_known(*id);
      ids.push_back(static_cast<uint16_t>(*id));
    }
    return ids;
  }
  ids.reserve(text.size());
  for (size_t offset = 0; offset < text.size();)
    ids.push_back(static_cast<uint16_t>(id(next_code_point(text, offset))));
  return ids;
}

std::string Vocabulary::decode(std::span<const uint16_t> ids) const {
  std::string text;
  text.reserve(ids.size());
  for (uint16_t id : ids) {
    expect_known(id);
    if (kind_ == Kind::characters) append_utf8(text, code_points_[id]);
    if (kind_ == Kind::bytes) text += static_cast<char>(id);
    if (kind_ == Kind::ids) text += fmt::format("{} ", id);
  }
  return text;
}

}  // namespace sigma1
