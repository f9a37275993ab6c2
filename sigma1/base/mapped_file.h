// A file that is read where it lies: only the pages that are touched take memory.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace sigma1 {

class MappedFile {
 public:
  // Throws Error when it cannot be read.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

}  // namespace sigma1
