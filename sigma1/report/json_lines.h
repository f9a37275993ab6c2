// Files of one JSON object a line, as a run leaves them, with mistakes told by file and line.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "sigma1/base/error.h"

namespace sigma1 {

// An object and where it stands. What is asked of it and is not there, or not of that kind, is an
// Error that names the place.
class JsonLine {
 public:
  JsonLine(const nlohmann::ordered_json& object, const std::filesystem::path& path, int line)
      : object_(object), path_(path), line_(line) {}

  const nlohmann::ordered_json& json() const { return object_; }
  bool has(const std::string& key) const { return object_.contains(key); }
  int64_t whole_number(const std::string& key) const;
  std::string text(const std::string& key) const;
  // NaN for null, which stands for what is not finite, and for what is missing.
  double number(const std::string& key) const;
  const nlohmann::ordered_json& array(const std::string& key) const;
  // An object in this one, at the same place.
  JsonLine inner(const nlohmann::ordered_json& object) const;
  [[noreturn]] void fail(const std::string& expected, const nlohmann::ordered_json& got) const;

 private:
  const nlohmann::ordered_json& value(const std::string& key) const;

  const nlohmann::ordered_json& object_;
  const std::filesystem::path& path_;
  int line_;
};

// A last line without its end is what a run that was killed leaves: it is passed over when it is no
// object.
void read_json_lines(const std::filesystem::path& path,
                     const std::function<void(const JsonLine&)>& use);

// A file that is one object.
nlohmann::ordered_json read_json_object(const std::filesystem::path& path);

}  // namespace sigma1
