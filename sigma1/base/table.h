// Tables for people, as text.
#pragma once

#include <string>
#include <vector>

namespace sigma1 {

// Columns as wide as their widest cell; numbers to the right, words to the left.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) : rows_{std::move(headings)} {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace sigma1
