#include "sigma1/data/bert_instances.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "sigma1/base/crc32c.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"

namespace sigma1 {
namespace {

static_assert(std::endian::native == std::endian::little, "files are written in memory order");

constexpr uint64_t kMagic = 0x706231616D676973;  // reads sigma1bp in the file
constexpr uint32_t kVersion = 1;

struct Header {
  uint64_t magic;
  uint32_t version, time, vocabulary;
  uint32_t pad, cls, sep, mask;
  uint32_t reserved;
  uint64_t records;
  uint32_t records_checksum;
  uint32_t unused;
  uint32_t also_unused;
  uint32_t header_checksum;  // of all before it
};
static_assert(std::is_trivially_copyable_v<Header> && sizeof(Header) == 64);

uint32_t checksum_of(const Header& header) {
  return crc32c(
      std::string_view(reinterpret_cast<const char*>(&header), offsetof(Header, header_checksum)));
}

Header read_header(std::span<const std::byte> bytes, const std::string& path) {
  Header header{};
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) {
    throw Error("{}: expected a file of `sigma1 bert prepare`, got another", path);
  }
  if (header.version != kVersion) {
    throw Error("{}: expected version {}, got {}", path, kVersion, header.version);
  }
  if (header.header_checksum != checksum_of(header)) throw Error("{}: its header is damaged", path);
  return header;
}

}  // namespace

void write_bert_instances(const std::string& path, const BertFileFacts& facts,
                          std::span<const uint16_t> records) {
  auto size = static_cast<size_t>(BertInstance::kHead + facts.time);
  if (records.size() % size != 0) throw Bug("records of {} numbers, got {}", size, records.size());
  std::string_view body(reinterpret_cast<const char*>(records.data()), records.size_bytes());
  Header header{.magic = kMagic,
                .version = kVersion,
                .time = facts.time,
                .vocabulary = facts.vocabulary,
                .pad = facts.special.pad,
                .cls = facts.special.cls,
                .sep = facts.special.sep,
                .mask = facts.special.mask,
                .reserved = 0,
                .records = records.size() / size,
                .records_checksum = crc32c(body),
                .unused = 0,
                .also_unused = 0,
                .header_checksum = 0};
  header.header_checksum = checksum_of(header);
  std::string_view head(reinterpret_cast<const char*>(&header), sizeof header);
  const std::string_view pieces[] = {head, body};
  write_file(path, pieces);
}

BertInstances::BertInstances(const std::string& path) : file_(path) {
  std::span<const std::byte> bytes = file_.bytes();
  Header header = read_header(bytes, path);
  facts_ = {header.time, header.vocabulary, {header.pad, header.cls, header.sep, header.mask}};
  std::span<const std::byte> body = bytes.subspan(sizeof header);
  uint64_t record_bytes = static_cast<uint64_t>(record_size()) * sizeof(uint16_t);
  if (body.size() / record_bytes != header.records || body.size() % record_bytes != 0) {
    throw Error("{}: expected {} records of {} bytes, got {} bytes", path, header.records,
                record_bytes, body.size());
  }
  if (crc32c(body) != header.records_checksum) throw Error("{}: its records are damaged", path);
  count_ = static_cast<int64_t>(header.records);
  records_ = reinterpret_cast<const uint16_t*>(body.data());
  check(path);
}

// A checksum tells of damage, not of another writer's mistakes.
void BertInstances::check(const std::string& path) const {
  if (count_ == 0) throw Error("{}: expected at least one pair of texts, got none", path);
  for (uint32_t id :
       {facts_.special.pad, facts_.special.cls, facts_.special.sep, facts_.special.mask}) {
    if (id >= facts_.vocabulary)
      throw Error("{}: expected ids of special tokens below {}, got {}", path, facts_.vocabulary,
                  id);
  }
  for (int64_t i = 0; i < count_; ++i) {
    BertInstance pair = at(i);
    bool fits = 0 < pair.first_length && pair.first_length < pair.length &&
                pair.length <= static_cast<int64_t>(facts_.time);
    if (!fits || !std::ranges::all_of(pair.tokens,
                                      [&](uint16_t token) { return token < facts_.vocabulary; })) {
      throw Error("{}: record {} holds lengths or ids that cannot be", path, i);
    }
  }
}

BertInstance BertInstances::at(int64_t index) const {
  if (index < 0 || index >= count_) throw Bug("record {} of {}", index, count_);
  const uint16_t* record = records_ + index * record_size();
  size_t length = std::min<size_t>(record[0], facts_.time);
  return {record[0], record[1], record[2] != 0, {record + BertInstance::kHead, length}};
}

}  // namespace sigma1
