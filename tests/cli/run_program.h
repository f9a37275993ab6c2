// Only the whole program has exit codes and streams, so these tests run it as a person would.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sigma1 {

struct ProgramResult {
  int exit_code;  // the negated signal number when the program was killed
  std::string out, err;
};

ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& input = "");

// What a run that must succeed prints with --json, which is added here. A failed run is a failure
// of the test and gives null.
nlohmann::json json_from(std::vector<std::string> arguments, const std::string& input = "");

std::vector<std::string> lines_of(const std::string& text);

}  // namespace sigma1
