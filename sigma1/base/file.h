// Files that are whole or not there: an interrupted or failed write leaves the old file untouched.
// And files that grow: what was appended and flushed stays when the program ends early.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace sigma1 {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FilePointer = std::unique_ptr<std::FILE, CloseFile>;

// Writes beside `path` and renames over it. Throws Error when the place cannot be written.
void write_file(const std::string& path, std::string_view content);
// The pieces one after the other, without joining them in memory first.
void write_file(const std::string& path, std::span<const std::string_view> pieces);

// Throws Error where write_file would, and changes nothing: for before work whose result it keeps.
void expect_writable(const std::string& path);

// All bytes of a file. Throws Error when it cannot be read.
std::string read_file(const std::string& path);

// A file written at its end only. Every failure is an Error that names it.
class AppendFile {
 public:
  enum class Open { existing_or_new, only_new };
  explicit AppendFile(std::string path, Open open = Open::existing_or_new);

  const std::string& path() const { return path_; }
  void append(std::string_view bytes);
  void flush();  // hands everything to the system

 private:
  std::string path_;
  FilePointer file_;
};

}  // namespace sigma1
