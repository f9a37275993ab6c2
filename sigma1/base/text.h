// Small text helpers shared by everything that reads names and numbers from people.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sigma1 {

// Lets maps be asked for a string_view without making a string of it.
struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

std::vector<std::string> split(std::string_view text, char separator);
std::string lower(std::string_view text);

// Whether the whole text fits a pattern in which * stands for any characters, none included.
bool matches_pattern(std::string_view text, std::string_view pattern);

// The candidate with the fewest edits from `name`, ignoring case; empty when none is at all close.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);

// A number as people type one: "0.25", "1e-3", "inf", "nan", "0x1p-3", a power "2^-24" or a ratio
// "127/180". Empty when the whole text is not such a number.
std::optional<double> parse_number(std::string_view text);

// Six significant digits; powers of two, which scales, limits and rates mostly are, as "2^k".
std::string short_number(double value);

}  // namespace sigma1
