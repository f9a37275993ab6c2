#include "sigma1/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sigma1/base/error.h"

namespace sigma1 {

MappedFile::MappedFile(const std::string& path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || fstat(file, &status) != 0) {
    int reason = errno;
    if (file >= 0) close(file);
    throw Error("{}: cannot be read: {}", path, std::strerror(reason));
  }
  auto size = static_cast<size_t>(status.st_size);
  // Nothing cannot be mapped, and is what an empty file has.
  void* memory = size == 0 ? nullptr : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  int reason = errno;
  close(file);
  if (memory == MAP_FAILED) throw Error("{}: cannot be mapped: {}", path, std::strerror(reason));
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace sigma1
