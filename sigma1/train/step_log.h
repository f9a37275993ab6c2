// A file that grows with a run: one JSON object a line, each with its "step". What a resumed run
// leaves equals what an uninterrupted one would have written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sigma1/base/file.h"

namespace sigma1 {

class StepLog {
 public:
  // Keeps what the file has of steps up to `last_step`, the one resumed from, and drops the rest:
  // all of it for a new run. A last line that an end of the program cut short is dropped; any other
  // line that is not of this kind is an Error.
  explicit StepLog(const std::filesystem::path& path, int64_t last_step = -1);

  // One object as text, without line breaks. It is handed to the system before this returns.
  void append(std::string_view json);

 private:
  AppendFile file_;
};

struct StepLine {
  int64_t step = 0;
  std::string json;
};

// Throws Error with file and line where it is not of this kind; a last line without its end is.
std::vector<StepLine> read_step_log(const std::filesystem::path& path);

}  // namespace sigma1
