#include "sigma1/data/token_cache.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <type_traits>
#include <utility>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "caches are written in memory order");

constexpr uint64_t kMagic = 0x6B7431616D676973;  // reads sigma1tk in the file
constexpr uint64_t kVersion = 1;

struct Header {
  uint64_t magic, version, key, count, checksum;
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 40);

// FNV-1a over words of 8 bytes, because reading a corpus byte by byte costs as much as encoding it;
// the shift carries high bits down, which the product alone would not.
uint64_t hash_bytes(std::string_view bytes, uint64_t hash = 0xCBF29CE484222325) {
  auto take = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0x100000001B3;
    hash ^= hash >> 29;
  };
  take(bytes.size());
  for (size_t i = 0; i < bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, std::min<size_t>(8, bytes.size() - i));
    take(word);
  }
  return hash;
}

uint64_t cache_key(std::string_view text, const Vocabulary& vocabulary) {
  return hash_bytes(text, hash_bytes(vocabulary.serialize()));
}

std::string path_for(const std::string& folder, uint64_t key) {
  return fs::path(folder) / fmt::format("{:016x}.tokens", key);
}

std::string_view bytes_of(const std::vector<uint16_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(uint16_t)};
}

std::optional<std::vector<uint16_t>> read_cache(const std::string& path, uint64_t key,
                                                size_t vocabulary_size) {
  std::error_code failed;
  uint64_t size = fs::file_size(path, failed);
  std::ifstream file(path, std::ios::binary);
  Header header{};
  if (failed || !file.read(reinterpret_cast<char*>(&header), sizeof header)) return std::nullopt;
  if (header.magic != kMagic || header.version != kVersion || header.key != key)
    return std::nullopt;
  // Asked of the file's size before memory is taken: a damaged count may be anything.
  uint64_t payload = size - sizeof header;
  if (payload % sizeof(uint16_t) != 0 || payload / sizeof(uint16_t) != header.count)
    return std::nullopt;
  std::vector<uint16_t> tokens(header.count);
  if (!file.read(reinterpret_cast<char*>(tokens.data()), static_cast<std::streamsize>(payload)))
    return std::nullopt;
  if (hash_bytes(bytes_of(tokens)) != header.checksum) return std::nullopt;
  bool known = std::all_of(tokens.begin(), tokens.end(),
                           [&](uint16_t token) { return token < vocabulary_size; });
  return known ? std::optional(std::move(tokens)) : std::nullopt;
}

void write_cache(const std::string& path, uint64_t key, const std::vector<uint16_t>& tokens) {
  std::string_view payload = bytes_of(tokens);
  Header header{kMagic, kVersion, key, tokens.size(), hash_bytes(payload)};
  std::string content(reinterpret_cast<const char*>(&header), sizeof header);
  content += payload;
  write_file(path, content);
}

}  // namespace

std::string token_cache_path(const std::string& folder, std::string_view text,
                             const Vocabulary& vocabulary) {
  return path_for(folder, cache_key(text, vocabulary));
}

std::vector<uint16_t> cached_tokens(const std::string& folder, std::string_view text,
                                    const Vocabulary& vocabulary) {
  uint64_t key = cache_key(text, vocabulary);
  std::string path = path_for(folder, key);
  if (auto tokens = read_cache(path, key, vocabulary.size())) return std::move(*tokens);
  std::vector<uint16_t> tokens = vocabulary.encode(text);
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) throw Error("cannot make the cache folder {}: {}", folder, failed.message());
  write_cache(path, key, tokens);
  return tokens;
}

}  // namespace sigma1
