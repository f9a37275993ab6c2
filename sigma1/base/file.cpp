#include "sigma1/base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

// Also a device or a pipe can be asked for (/dev/stdout); those take bytes but no rename.
bool is_special_file(const std::string& path) {
  std::error_code ignored;
  auto status = std::filesystem::status(path, ignored);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
         !std::filesystem::is_directory(status);
}

bool write_all(int file, std::string_view content) {
  while (!content.empty()) {
    ssize_t written = ::write(file, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    content.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

[[noreturn]] void fail(const std::string& path, int cause) {
  throw Error("cannot write {}: {}", path, std::strerror(cause));
}

}  // namespace

void write_file(const std::string& path, std::string_view content) {
  if (std::filesystem::is_directory(path)) fail(path, EISDIR);
  bool in_place = is_special_file(path);
  std::string target = in_place ? path : fmt::format("{}.{}.part", path, ::getpid());
  int file = ::open(target.c_str(), O_WRONLY | O_CREAT | (in_place ? 0 : O_TRUNC), 0666);
  if (file < 0) fail(path, errno);
  bool written = write_all(file, content) && (in_place || ::fsync(file) == 0);
  int cause = errno;
  ::close(file);
  if (written && in_place) return;
  if (written && std::rename(target.c_str(), path.c_str()) == 0) return;
  if (written) cause = errno;
  if (!in_place) ::unlink(target.c_str());
  fail(path, cause);
}

}  // namespace sigma1
