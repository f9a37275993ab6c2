#include "sigma1/runtime/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "sigma1/base/crc32c.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/base/text.h"

namespace sigma1 {
namespace {

using Json = nlohmann::json;

static_assert(std::endian::native == std::endian::little, "tensors are written in memory order");

constexpr size_t kLengthBytes = 8;
constexpr size_t kDataAlignment = 64;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kDataChecksum = "crc32c";
constexpr const char* kHeaderChecksum = "header_crc32c";

std::string checksum_text(uint32_t crc) { return fmt::format("{:08x}", crc); }

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Of what the header says, not of how it is spelled: another tool may put spaces or keys in
// another order without harm.
std::string header_checksum(Json header) {
  header[kMetadata].erase(kHeaderChecksum);
  return checksum_text(crc32c(header.dump()));
}

void check_before_writing(const StoredTensor& tensor) {
  int64_t element = dtype_bytes(tensor.dtype);
  if (element == 0) throw Bug("tensor {} has the unknown dtype {}", tensor.name, tensor.dtype);
  if (static_cast<int64_t>(tensor.data.size()) != element_count(tensor.shape) * element)
    throw Bug("tensor {} of shape {} and dtype {} has {} bytes", tensor.name,
              to_string(tensor.shape), tensor.dtype, tensor.data.size());
  if (tensor.name == kMetadata) throw Bug("a tensor cannot have the name {}", kMetadata);
}

std::vector<const StoredTensor*> in_file_order(std::span<const StoredTensor> tensors) {
  std::vector<const StoredTensor*> order;
  for (const StoredTensor& tensor : tensors) {
    check_before_writing(tensor);
    order.push_back(&tensor);
  }
  std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    return std::pair(-dtype_bytes(a->dtype), std::string_view(a->name)) <
           std::pair(-dtype_bytes(b->dtype), std::string_view(b->name));
  });
  return order;
}

Json make_header(std::span<const StoredTensor* const> order, const Metadata& metadata) {
  Json header = Json::object();
  uint64_t offset = 0;
  uint32_t crc = 0;
  for (const StoredTensor* tensor : order) {
    if (header.contains(tensor->name)) throw Bug("two tensors have the name {}", tensor->name);
    uint64_t end = offset + tensor->data.size();
    header[tensor->name] = {
        {"dtype", tensor->dtype}, {"shape", tensor->shape}, {"data_offsets", {offset, end}}};
    offset = end;
    crc = crc32c(tensor->data, crc);
  }
  header[kMetadata] = metadata;
  header[kMetadata][kDataChecksum] = checksum_text(crc);
  header[kMetadata][kHeaderChecksum] = header_checksum(header);
  return header;
}

// The length and the header, padded so that the data behind it is aligned.
std::string serialize_header(const Json& header) {
  std::string text = header.dump();
  size_t used = (kLengthBytes + text.size()) % kDataAlignment;
  if (used != 0) text.append(kDataAlignment - used, ' ');
  uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + text;
}

// Reads one file's bytes; every complaint names the file.
class Reader {
 public:
  Reader(const std::filesystem::path& path, std::string_view bytes) : path_(path), bytes_(bytes) {}

  void read(Metadata& metadata, std::vector<StoredTensor>& tensors) {
    Json header = read_header();
    for (const auto& [name, entry] : header.items())
      if (name == kMetadata)
        read_metadata(entry, metadata);
      else
        tensors.push_back(read_tensor(name, entry));
    check_ranges(tensors);
    // Either of them asks for both, so that damage to the name of one does not switch it off.
    if (!metadata.contains(kDataChecksum) && !metadata.contains(kHeaderChecksum)) return;
    check_checksum(metadata, kDataChecksum, checksum_text(crc32c(data_)));
    check_checksum(metadata, kHeaderChecksum, header_checksum(header));
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    throw Error("{}: {}", path_.string(), fmt::format(text, std::forward<Args>(args)...));
  }

  Json read_header() {
    if (bytes_.size() < kLengthBytes)
      fail("expected a safetensors file, got one of {} bytes", bytes_.size());
    uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), kLengthBytes);
    if (length > kMaxHeaderBytes)
      fail("expected a safetensors file, with a header of at most {} bytes, got {}",
           kMaxHeaderBytes, length);
    if (length > bytes_.size() - kLengthBytes)
      fail("expected a safetensors file with a header of {} bytes, got a file of {}", length,
           bytes_.size());
    std::string_view text = bytes_.substr(kLengthBytes, length);
    data_ = bytes_.substr(kLengthBytes + length);
    if (!text.starts_with('{')) fail("expected a header that starts with '{{'");
    // The parser would take it for the end and not look at what follows.
    if (text.find('\0') != text.npos) fail("expected a JSON header, got one with a zero byte");
    try {
      return parse_header(text);
    } catch (const Json::parse_error& cause) {
      fail("expected a JSON header, got damage at byte {} of it", cause.byte);
    } catch (const Json::exception&) {
      fail("expected a JSON header, got a number in it that is too large for any type");
    }
  }

  // The parser alone would let the last of two equal keys win and nest without end.
  Json parse_header(std::string_view text) const {
    constexpr int kDeepest = 3;
    std::vector<std::set<std::string>> keys;
    return Json::parse(text, [&](int depth, Json::parse_event_t event, Json& parsed) {
      if (depth > kDeepest) fail("expected a header of tensors, got one nested too deep");
      if (event == Json::parse_event_t::object_start) keys.emplace_back();
      if (event == Json::parse_event_t::object_end) keys.pop_back();
      if (event == Json::parse_event_t::key &&
          !keys.back().insert(parsed.get<std::string>()).second)
        fail("the header has the name '{}' twice", parsed.get<std::string>());
      return true;
    });
  }

  void read_metadata(const Json& entry, Metadata& metadata) const {
    if (!entry.is_object()) fail("expected {} to map names to texts", kMetadata);
    for (const auto& [name, value] : entry.items()) {
      if (!value.is_string())
        fail("expected text as {} '{}', got {}", kMetadata, name, show(value));
      metadata[name] = value.get<std::string>();
    }
  }

  StoredTensor read_tensor(const std::string& name, const Json& entry) const {
    StoredTensor tensor{.name = name, .dtype = read_dtype(name, entry), .shape = {}, .data = {}};
    auto need = read_shape(name, entry, tensor.shape);
    std::vector<uint64_t> range = read_numbers(name, entry, "data_offsets");
    if (range.size() != 2 || range[0] > range[1] || range[1] > data_.size())
      fail("tensor '{}': expected offsets [begin, end] within {} bytes of data, got {}", name,
           data_.size(), show(entry["data_offsets"]));
    uint64_t size = range[1] - range[0];
    if (!need || *need != size)
      fail("tensor '{}': shape {} of {} does not take the {} bytes of its range", name,
           to_string(tensor.shape), tensor.dtype, size);
    tensor.data = std::as_bytes(std::span(data_.substr(range[0], size)));
    return tensor;
  }

  std::string read_dtype(const std::string& name, const Json& entry) const {
    if (!entry.is_object()) fail("tensor '{}': expected its record, got {}", name, show(entry));
    Json dtype = entry.value("dtype", Json());
    if (dtype.is_string() && dtype_bytes(dtype.get_ref<const std::string&>()) != 0)
      return dtype.get<std::string>();
    fail("tensor '{}': expected dtype F32, F16, BF16, F8_E4M3, F8_E5M2, I32, I64 or U8, got {}",
         name, show(dtype));
  }

  // The bytes that the shape takes; empty when there is no such number.
  std::optional<uint64_t> read_shape(const std::string& name, const Json& entry,
                                     Shape& shape) const {
    bool fits = true;
    auto bytes = static_cast<uint64_t>(dtype_bytes(entry["dtype"].get_ref<const std::string&>()));
    for (uint64_t dim : read_numbers(name, entry, "shape")) {
      int64_t signed_dim = 0;
      fits = !__builtin_add_overflow(dim, 0, &signed_dim) && fits;
      fits = !__builtin_mul_overflow(bytes, dim, &bytes) && fits;
      shape.push_back(signed_dim);
    }
    return fits ? std::optional(bytes) : std::nullopt;
  }

  std::vector<uint64_t> read_numbers(const std::string& name, const Json& entry,
                                     const char* field) const {
    Json list = entry.value(field, Json());
    bool whole = list.is_array() && std::all_of(list.begin(), list.end(), [](const Json& number) {
                   return number.is_number_unsigned();
                 });
    if (!whole) fail("tensor '{}': expected whole numbers as {}, got {}", name, field, show(list));
    return list.get<std::vector<uint64_t>>();
  }

  void check_ranges(std::span<const StoredTensor> tensors) const {
    std::vector<std::pair<size_t, size_t>> ranges;
    for (const StoredTensor& tensor : tensors) {
      auto begin = static_cast<size_t>(as_text(tensor.data).data() - data_.data());
      ranges.emplace_back(begin, begin + tensor.data.size());
    }
    std::sort(ranges.begin(), ranges.end());
    size_t covered = 0;
    for (auto [begin, end] : ranges) {
      if (begin < covered) fail("two tensors overlap at byte {} of the data", begin);
      if (begin > covered) fail("no tensor has byte {} of the data", covered);
      covered = end;
    }
    if (covered != data_.size()) fail("expected {} bytes of data, got {}", covered, data_.size());
  }

  void check_checksum(const Metadata& metadata, const char* name, const std::string& actual) const {
    auto stored = metadata.find(name);
    if (stored == metadata.end()) fail("damaged: expected a {}, got none", name);
    if (stored->second != actual)
      fail("damaged: expected {} {}, got {}", name, stored->second, actual);
  }

  static std::string show(const Json& value) { return shorten(value.dump()); }

  // Fit to be read whatever the file holds.
  static std::string shorten(const std::string& text) {
    constexpr size_t kLongest = 160;
    return text.size() <= kLongest ? text : text.substr(0, kLongest) + "…";
  }

  const std::filesystem::path& path_;
  std::string_view bytes_;
  std::string_view data_;
};

}  // namespace

int64_t dtype_bytes(std::string_view dtype) {
  if (dtype == "I64") return 8;
  if (dtype == "F32" || dtype == "I32") return 4;
  if (dtype == "F16" || dtype == "BF16") return 2;
  return dtype == "F8_E4M3" || dtype == "F8_E5M2" || dtype == "U8" ? 1 : 0;
}

void write_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                       const Metadata& metadata) {
  std::vector<const StoredTensor*> order = in_file_order(tensors);
  std::string header;
  try {
    header = serialize_header(make_header(order, metadata));
  } catch (const Json::exception& cause) {
    throw Error("cannot write {}: names and metadata must be UTF-8: {}", path.string(),
                cause.what());
  }
  std::vector<std::string_view> pieces{header};
  for (const StoredTensor* tensor : order) pieces.push_back(as_text(tensor->data));
  write_file(path, pieces);
}

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : path_(path), bytes_(read_file(path)) {
  Reader(path_, bytes_).read(metadata_, tensors_);
}

const StoredTensor* SafetensorsFile::find(std::string_view name) const {
  auto found =
      std::lower_bound(tensors_.begin(), tensors_.end(), name,
                       [](const StoredTensor& a, std::string_view b) { return a.name < b; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

const StoredTensor& SafetensorsFile::at(std::string_view name) const {
  if (const StoredTensor* tensor = find(name)) return *tensor;
  std::vector<std::string> names;
  for (const StoredTensor& tensor : tensors_) names.push_back(tensor.name);
  std::string near = nearest_name(name, names);
  throw Error("{}: expected a tensor '{}'{}", path_.string(), name,
              near.empty() ? "" : fmt::format(", got one named '{}'", near));
}

}  // namespace sigma1
