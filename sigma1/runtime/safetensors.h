// Named tensors in a file that other programs read too: the safetensors format, which is 8 bytes of
// header length, a JSON header and the data without gaps. Nothing in a file is believed before it
// is checked: a checkpoint may be cut short, damaged or made by someone else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sigma1/graph/tensor.h"

namespace sigma1 {

struct StoredTensor {
  std::string name;
  std::string dtype;  // F32, F16, BF16, F8_E4M3, F8_E5M2, I32, I64 or U8
  Shape shape;
  std::span<const std::byte> data;  // row-major, little-endian
};

using Metadata = std::map<std::string, std::string>;

// Bytes of one element; 0 for a dtype that is none of the above.
int64_t dtype_bytes(std::string_view dtype);

// Whole or not there. The data starts at a multiple of 64 bytes, larger elements first and then by
// name, so that each tensor is aligned to its elements. Metadata gains two checksums: "crc32c" of
// the data, "header_crc32c" of the header's content.
void write_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                       const Metadata& metadata = {});

// A file read into memory and checked; its checksums too, where it has them. Throws Error that
// names the file and what is wrong with it.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const Metadata& metadata() const { return metadata_; }
  // By name. The data lives as long as this object; in another writer's file it need not be
  // aligned.
  std::span<const StoredTensor> tensors() const { return tensors_; }
  const StoredTensor* find(std::string_view name) const;
  const StoredTensor& at(std::string_view name) const;  // Error when it is not there

 private:
  std::filesystem::path path_;
  std::string bytes_;
  Metadata metadata_;
  std::vector<StoredTensor> tensors_;
};

}  // namespace sigma1
