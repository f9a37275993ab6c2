// What every subcommand prints: a table for people or JSON for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sigma1 {

// Columns as wide as their widest cell; numbers to the right, words to the left.
class Table {
 public:
  explicit Table(std::vector<std::string> headings) : rows_{std::move(headings)} {}
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  void print() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

void print_json(const nlohmann::ordered_json& json);

// A number that survives JSON, which has no infinity and no NaN: those become strings.
nlohmann::ordered_json json_number(double value);

}  // namespace sigma1
