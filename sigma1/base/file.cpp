#include "sigma1/base/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

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

// What is written first: a file beside `path`, or what is no file itself.
struct Target {
  std::string path;
  bool in_place;
  int file;

  explicit Target(const std::string& asked) : in_place(is_special_file(asked)) {
    if (std::filesystem::is_directory(asked)) fail(asked, EISDIR);
    path = in_place ? asked : fmt::format("{}.{}.part", asked, ::getpid());
    file = ::open(path.c_str(), O_WRONLY | O_CREAT | (in_place ? 0 : O_TRUNC), 0666);
    if (file < 0) fail(asked, errno);
  }
  void remove() const {
    if (!in_place) ::unlink(path.c_str());
  }
};

// A rename is kept through a power cut only once its folder is on the disk. Where a folder cannot
// be synced there is nothing better to do.
void sync_folder_of(const std::string& path) {
  std::string folder = std::filesystem::path(path).parent_path();
  int file = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

}  // namespace

void write_file(const std::string& path, std::string_view content) {
  write_file(path, std::span(&content, 1));
}

void write_file(const std::string& path, std::span<const std::string_view> pieces) {
  Target target(path);
  bool written =
      std::all_of(pieces.begin(), pieces.end(),
                  [&](std::string_view piece) { return write_all(target.file, piece); }) &&
      (target.in_place || ::fsync(target.file) == 0);
  int cause = errno;
  ::close(target.file);
  if (written && target.in_place) return;
  if (written && std::rename(target.path.c_str(), path.c_str()) == 0) return sync_folder_of(path);
  if (written) cause = errno;
  target.remove();
  fail(path, cause);
}

void expect_writable(const std::string& path) {
  if (is_special_file(path)) return;  // who reads a pipe would take our leaving for its end
  Target target(path);
  ::close(target.file);
  target.remove();
}

std::string read_file(const std::string& path) {
  constexpr size_t kPiece = size_t{1} << 18;
  auto fail_to_read = [&path] { throw Error("cannot read {}: {}", path, std::strerror(errno)); };
  FilePointer file(std::fopen(path.c_str(), "rb"));
  if (!file) fail_to_read();
  std::string bytes;
  // Only a hint: a pipe has no size, and a file may grow.
  std::error_code unknown;
  if (uintmax_t size = std::filesystem::file_size(path, unknown); !unknown) bytes.reserve(size);
  std::vector<char> piece(kPiece);
  while (size_t count = std::fread(piece.data(), 1, piece.size(), file.get()))
    bytes.append(piece.data(), count);
  if (std::ferror(file.get())) fail_to_read();
  return bytes;
}

AppendFile::AppendFile(std::string path, Open open)
    : path_(std::move(path)),
      file_(std::fopen(path_.c_str(), open == Open::only_new ? "wbx" : "ab")) {
  if (!file_) fail(path_, errno);
}

void AppendFile::append(std::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) fail(path_, errno);
}

void AppendFile::flush() {
  if (std::fflush(file_.get()) != 0) fail(path_, errno);
}

}  // namespace sigma1
