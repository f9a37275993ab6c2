#include "sigma1/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <filesystem>
#include <fstream>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "ids are read in memory order");

constexpr int32_t kMagic = 20240520, kVersion = 1;
using Header = std::array<int32_t, 256>;

// What lies in a file before its ids, and how many these are.
struct Extent {
  uint64_t header = 0, count = 0;
};

Extent extent_of(const std::string& path, const Header& header, uint64_t size) {
  if (size == 0) throw Error("expected token ids in {}, got an empty file", path);
  if (size < sizeof(int32_t) || header[0] != kMagic) {
    if (size % sizeof(uint16_t) == 0) return {0, size / sizeof(uint16_t)};
    throw Error("expected ids of 2 bytes in {}, got half a one at byte {}", path, size - 1);
  }
  if (size < sizeof(Header)) {
    throw Error("expected a header of {} bytes in {}, got a file that ends at byte {}",
                sizeof(Header), path, size);
  }
  if (header[1] != kVersion) {
    throw Error("expected version {} in the header of {}, got {} at byte 4", kVersion, path,
                header[1]);
  }
  uint64_t content = size - sizeof(Header), count = static_cast<uint32_t>(header[2]);
  if (content != count * sizeof(uint16_t)) {
    throw Error("expected {} ids of 2 bytes in {}, as byte 8 says, got {} bytes from byte {} on",
                count, path, content, sizeof(Header));
  }
  if (count == 0) throw Error("expected token ids in {}, got a header that says 0", path);
  return {sizeof(Header), count};
}

}  // namespace

std::vector<uint16_t> read_token_file(const std::string& path, int64_t vocabulary) {
  std::error_code failed;
  uint64_t size = fs::file_size(path, failed);
  if (failed) throw Error("expected a file of token ids, got nothing to read at '{}'", path);
  std::ifstream file(path, std::ios::binary);
  Header header{};
  file.read(reinterpret_cast<char*>(header.data()), sizeof header);
  Extent extent = extent_of(path, header, size);
  std::vector<uint16_t> tokens(extent.count);
  file.clear();
  file.seekg(static_cast<std::streamoff>(extent.header));
  auto bytes = static_cast<std::streamsize>(extent.count * sizeof(uint16_t));
  if (!file.read(reinterpret_cast<char*>(tokens.data()), bytes)) {
    throw Error("cannot read {}: {} bytes were expected", path, size);
  }
  auto beyond = std::ranges::find_if(tokens, [&](uint16_t id) { return id >= vocabulary; });
  if (beyond == tokens.end()) return tokens;
  auto at = static_cast<uint64_t>(beyond - tokens.begin());
  throw Error("expected ids below {} in {}, got {} at byte {}; vocabulary=N allows more",
              vocabulary, path, *beyond, extent.header + at * sizeof(uint16_t));
}

void write_token_file(const std::string& path, std::span<const uint16_t> tokens) {
  if (tokens.size() > INT32_MAX) {
    throw Error("{}: expected at most {} tokens, which its header can count, got {}", path,
                INT32_MAX, tokens.size());
  }
  Header header{kMagic, kVersion, static_cast<int32_t>(tokens.size())};
  std::string content(reinterpret_cast<const char*>(header.data()), sizeof header);
  content.append(reinterpret_cast<const char*>(tokens.data()), tokens.size_bytes());
  write_file(path, content);
}

}  // namespace sigma1
