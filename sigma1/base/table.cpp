#include "sigma1/base/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "sigma1/base/text.h"

namespace sigma1 {
namespace {

// As a terminal shows it: one column per code point, which holds for all we print.
size_t shown_width(const std::string& cell) {
  return static_cast<size_t>(std::ranges::count_if(
      cell, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

bool is_numeric(const std::string& cell) { return cell == "-" || parse_number(cell).has_value(); }

std::string padded(const std::string& cell, size_t width, bool right) {
  std::string space(width - shown_width(cell), ' ');
  return right ? space + cell : cell + space;
}

}  // namespace

std::string Table::text() const {
  size_t columns = rows_.front().size();
  std::vector<std::string> lines(rows_.size());
  for (size_t column = 0; column < columns; ++column) {
    size_t width = 0;
    bool right = rows_.size() > 1;
    for (size_t row = 0; row < rows_.size(); ++row) {
      width = std::max(width, shown_width(rows_[row][column]));
      if (row > 0) right = right && is_numeric(rows_[row][column]);
    }
    for (size_t row = 0; row < rows_.size(); ++row) {
      lines[row] += padded(rows_[row][column], width, right) + "  ";
    }
  }
  std::string all;
  for (std::string& line : lines) {
    line.erase(line.find_last_not_of(' ') + 1);
    all += line + "\n";
  }
  return all;
}

void Table::print() const { fmt::print("{}", text()); }

}  // namespace sigma1
