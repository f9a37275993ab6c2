#include "sigma1/base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <numeric>

namespace sigma1 {
namespace {

// Insertions, deletions, substitutions and swaps of neighbours, the commonest slip of all.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t substituted = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({substituted, last[j] + 1, row[j - 1] + 1});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<double> parse_plain_number(std::string_view text) {
  if (text.empty() || std::isspace(static_cast<unsigned char>(text.front()))) return std::nullopt;
  std::string terminated(text);
  char* end = nullptr;
  double value = std::strtod(terminated.c_str(), &end);
  if (end != terminated.c_str() + terminated.size()) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0;;) {
    size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

bool matches_pattern(std::string_view text, std::string_view pattern) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() != '*') {
    return !text.empty() && text.front() == pattern.front() &&
           matches_pattern(text.substr(1), pattern.substr(1));
  }
  return matches_pattern(text, pattern.substr(1)) ||
         (!text.empty() && matches_pattern(text.substr(1), pattern));
}

std::string nearest_name(std::string_view name, std::span<const std::string> candidates) {
  if (name.empty()) return "";
  std::string wanted = lower(name);
  std::string best;
  // Beyond this a suggestion confuses more than it helps.
  size_t best_distance = std::max<size_t>(2, wanted.size() / 2) + 1;
  for (const std::string& candidate : candidates) {
    size_t distance = edit_distance(wanted, lower(candidate));
    if (distance >= best_distance) continue;
    best_distance = distance;
    best = candidate;
  }
  return best;
}

std::optional<double> parse_number(std::string_view text) {
  for (char joint : {'^', '/'}) {
    size_t at = text.find(joint);
    if (at == std::string_view::npos) continue;
    auto left = parse_plain_number(text.substr(0, at));
    auto right = parse_plain_number(text.substr(at + 1));
    if (!left || !right) return std::nullopt;
    // As in mathematics the sign stands before the power: -2^2 is -4.
    return joint == '^' ? std::copysign(std::pow(std::fabs(*left), *right), *left) : *left / *right;
  }
  return parse_plain_number(text);
}

std::string short_number(double value) {
  int exponent = 0;
  bool power_of_two = std::isfinite(value) && std::frexp(value, &exponent) == 0.5;
  return power_of_two ? fmt::format("2^{}", exponent - 1) : fmt::format("{:.6g}", value);
}

}  // namespace sigma1
