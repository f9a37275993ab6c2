#include "sigma1/train/step_log.h"

#include <nlohmann/json.hpp>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

int64_t step_of_line(std::string_view line, const fs::path& path, int number) {
  Json object = Json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer())
    throw Error("{}:{}: expected a JSON object with a step, got '{}'", path.string(), number,
                line.substr(0, 80));
  return object["step"].get<int64_t>();
}

std::string lines_up_to(int64_t last_step, std::string_view content, const fs::path& path) {
  std::string kept;
  int number = 0;
  while (true) {
    size_t end = content.find('\n');
    if (end == std::string_view::npos) return kept;
    std::string_view line = content.substr(0, end + 1);
    if (step_of_line(line.substr(0, end), path, ++number) <= last_step) kept += line;
    content.remove_prefix(line.size());
  }
}

fs::path with_lines_up_to(int64_t last_step, const fs::path& path) {
  if (!fs::exists(path)) return path;
  std::string content = read_file(path);
  std::string kept = last_step < 0 ? "" : lines_up_to(last_step, content, path);
  if (kept.size() != content.size()) write_file(path, kept);
  return path;
}

}  // namespace

StepLog::StepLog(const fs::path& path, int64_t last_step)
    : file_(with_lines_up_to(last_step, path)) {}

void StepLog::append(std::string_view json) {
  file_.append(std::string(json) + "\n");
  file_.flush();
}

std::vector<StepLine> read_step_log(const fs::path& path) {
  std::vector<StepLine> lines;
  int number = 0;
  for (std::string& line : split(read_file(path.string()), '\n')) {
    ++number;
    if (line.empty()) continue;
    int64_t step = step_of_line(line, path, number);
    lines.push_back({step, std::move(line)});
  }
  return lines;
}

}  // namespace sigma1
