#include "sigma1/report/json_lines.h"

#include <cmath>
#include <string_view>

#include "sigma1/base/file.h"

namespace sigma1 {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

void JsonLine::fail(const std::string& expected, const Json& got) const {
  std::string text = got.dump(-1, ' ', false, Json::error_handler_t::replace);
  throw Error("{}:{}: expected {}, got {}", path_.string(), line_, expected, text.substr(0, 80));
}

const Json& JsonLine::value(const std::string& key) const {
  static const Json kNull;
  auto found = object_.find(key);
  return found == object_.end() ? kNull : *found;
}

int64_t JsonLine::whole_number(const std::string& key) const {
  const Json& number = value(key);
  if (!number.is_number_integer()) fail(fmt::format("a whole number as {}", key), number);
  return number.get<int64_t>();
}

std::string JsonLine::text(const std::string& key) const {
  const Json& text = value(key);
  if (!text.is_string()) fail(fmt::format("a text as {}", key), text);
  return text.get<std::string>();
}

double JsonLine::number(const std::string& key) const {
  const Json& number = value(key);
  if (number.is_null()) return NAN;
  if (!number.is_number()) fail(fmt::format("a number as {}", key), number);
  return number.get<double>();
}

const Json& JsonLine::array(const std::string& key) const {
  const Json& array = value(key);
  if (!array.is_array()) fail(fmt::format("a list as {}", key), array);
  return array;
}

JsonLine JsonLine::inner(const Json& object) const {
  if (!object.is_object()) fail("an object", object);
  return {object, path_, line_};
}

void read_json_lines(const fs::path& path, const std::function<void(const JsonLine&)>& use) {
  std::string content = read_file(path.string());
  std::string_view rest = content;
  for (int number = 1; !rest.empty(); ++number) {
    size_t end = rest.find('\n');
    bool is_whole = end != std::string_view::npos;
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(is_whole ? end + 1 : rest.size());
    if (line.empty()) continue;
    Json object = Json::parse(line, nullptr, false);
    if (!object.is_object()) {
      if (!is_whole) return;
      throw Error("{}:{}: expected a JSON object, got '{}'", path.string(), number,
                  line.substr(0, 80));
    }
    use(JsonLine(object, path, number));
  }
}

Json read_json_object(const fs::path& path) {
  Json object;
  try {
    object = Json::parse(read_file(path.string()));
  } catch (const Json::exception& error) {
    std::string_view text =
        error.what();  // "[json.exception.parse_error.101] parse error at line …"
    throw Error("{}: {}", path.string(), text.substr(text.find(' ') + 1));
  }
  if (!object.is_object()) throw Error("{}:1: expected a JSON object", path.string());
  return object;
}

}  // namespace sigma1
