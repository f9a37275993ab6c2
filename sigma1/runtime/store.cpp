#include "sigma1/runtime/store.h"

#include <cstdlib>
#include <cstring>
#include <new>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

constexpr int64_t kAlignment = 64;

// How a write rounds is the writer's business.
FloatFormat format_of(const cpu::Buffer& buffer) {
  return buffer.codec ? buffer.codec->cast().format : find_format("fp32").format;
}

}  // namespace

void AlignedBytes::Free::operator()(std::byte* memory) const { std::free(memory); }

AlignedBytes::AlignedBytes(int64_t size) : size_(size) {
  int64_t rounded = (std::max(size, int64_t{1}) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, static_cast<size_t>(rounded));
  if (memory == nullptr) throw Error("memory: {} bytes were asked for and are not there", rounded);
  std::memset(memory, 0, static_cast<size_t>(rounded));
  data_.reset(static_cast<std::byte*>(memory));
}

int64_t element_bytes(Kind kind, const Cast& cast) {
  return kind == Kind::index ? static_cast<int64_t>(sizeof(int32_t)) : cast.format.bytes();
}

std::vector<float> read_floats(const cpu::Buffer& buffer) {
  if (buffer.kind == Kind::index) return {buffer.indices(), buffer.indices() + buffer.count()};
  std::vector<float> values(static_cast<size_t>(buffer.count()));
  const float* loaded = cpu::load(buffer, 0, buffer.count(), values.data());
  if (loaded != values.data()) std::copy_n(loaded, values.size(), values.data());
  return values;
}

void Store::create(const std::string& name, const TensorType& type, const Cast& cast) {
  cpu::Buffer buffer{nullptr, cpu::shared_codec(cast), type.shape, type.kind};
  auto found = entries_.find(name);
  if (found != entries_.end()) {
    const cpu::Buffer& there = found->second.buffer;
    if (there.shape == type.shape && there.kind == type.kind &&
        format_of(there) == format_of(buffer)) {
      return;
    }
    throw Error("{}: expected {} of {} bits, got {} of {} bits", name, to_string(there.shape),
                format_of(there).bits(), to_string(type.shape), format_of(buffer).bits());
  }
  AlignedBytes memory(type.count() * element_bytes(type.kind, cast));
  buffer.data = memory.data();
  entries_.emplace(name, Entry{std::move(memory), buffer});
}

const cpu::Buffer& Store::at(const std::string& name) const {
  auto found = entries_.find(name);
  if (found == entries_.end()) throw Bug("the store has no '{}'", name);
  return found->second.buffer;
}

int64_t Store::bytes(const std::string& name) const {
  at(name);
  return entries_.at(name).memory.size();
}

std::vector<std::string> Store::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

void Store::write(const std::string& name, std::span<const float> values) {
  const cpu::Buffer& buffer = at(name);
  if (static_cast<int64_t>(values.size()) != buffer.count() || buffer.kind != Kind::real) {
    throw Bug("{}: {} numbers written to {}", name, values.size(), to_string(buffer.shape));
  }
  cpu::store(buffer, 0, buffer.count(), values.data());
}

void Store::write_indices(const std::string& name, std::span<const int32_t> values) {
  const cpu::Buffer& buffer = at(name);
  if (static_cast<int64_t>(values.size()) != buffer.count() || buffer.kind != Kind::index) {
    throw Bug("{}: {} indices written to {}", name, values.size(), to_string(buffer.shape));
  }
  std::copy(values.begin(), values.end(), buffer.indices());
}

void Store::fill(const std::string& name, float value) {
  write(name, std::vector<float>(static_cast<size_t>(at(name).count()), value));
}

std::vector<float> Store::read(const std::string& name) const { return read_floats(at(name)); }

}  // namespace sigma1
