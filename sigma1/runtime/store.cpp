#include "sigma1/runtime/store.h"

#include <algorithm>

#include "sigma1/backend/cpu/kernel.h"
#include "sigma1/base/error.h"
#include "sigma1/ops/pointwise.h"

namespace sigma1 {
namespace {

// How a write rounds is the writer's business.
FloatFormat format_of(const Buffer& buffer) {
  return buffer.codec ? buffer.codec->cast().format : find_format("fp32").format;
}

int64_t bytes_of(const Buffer& buffer) {
  int64_t each = buffer.codec ? buffer.codec->bytes() : 4;
  return buffer.count() * each;
}

}  // namespace

int64_t element_bytes(Kind kind, const Cast& cast) {
  return kind == Kind::index ? static_cast<int64_t>(sizeof(int32_t)) : cast.format.bytes();
}

HostView::HostView(const Buffer& buffer) : buffer_(buffer) {
  if (buffer.device == nullptr) return;
  copy_.resize(static_cast<size_t>(bytes_of(buffer)));
  buffer.device->read(copy_.data(), buffer.data, bytes_of(buffer));
  buffer_.data = copy_.data();
  buffer_.device = nullptr;
  if (buffer.scale == nullptr) return;
  buffer.device->read(&scale_, reinterpret_cast<const std::byte*>(buffer.scale), sizeof(scale_));
  buffer_.scale = &scale_;
}

std::vector<float> read_floats(const Buffer& anywhere) {
  HostView host(anywhere);
  const Buffer& buffer = host.buffer();
  if (buffer.kind == Kind::index) return {buffer.indices(), buffer.indices() + buffer.count()};
  std::vector<float> values(static_cast<size_t>(buffer.count()));
  const float* loaded = cpu::load(buffer, 0, buffer.count(), values.data());
  if (loaded != values.data()) std::copy_n(loaded, values.size(), values.data());
  return values;
}

void Store::create(const std::string& name, const TensorType& type, const Cast& cast) {
  Buffer buffer{nullptr, shared_codec(cast), type.shape, type.kind};
  buffer.device = &device_ == &cpu_device() ? nullptr : &device_;
  auto found = entries_.find(name);
  if (found != entries_.end()) {
    const Buffer& there = found->second.buffer;
    if (there.shape == type.shape && there.kind == type.kind &&
        format_of(there) == format_of(buffer)) {
      return;
    }
    throw Error("{}: expected {} of {} bits, got {} of {} bits", name, to_string(there.shape),
                format_of(there).bits(), to_string(type.shape), format_of(buffer).bits());
  }
  DeviceBytes memory(device_, type.count() * element_bytes(type.kind, cast));
  buffer.data = memory.data();
  entries_.emplace(name, Entry{std::move(memory), buffer, std::nullopt});
}

void Store::keep_turned(const std::string& name) {
  at(name);
  Entry& entry = entries_.at(name);
  if (entry.turned) return;
  if (entry.written) throw Bug("{}: a program writes it in one orientation", name);
  entry.turned.emplace(device_, entry.memory.size());
  entry.buffer.turned = entry.turned->data();
  device_.turn(entry.buffer);
}

const Buffer& Store::at(const std::string& name) const {
  auto found = entries_.find(name);
  if (found == entries_.end()) throw Bug("the store has no '{}'", name);
  return found->second.buffer;
}

int64_t Store::bytes(const std::string& name) const {
  at(name);
  return entries_.at(name).memory.size();
}

int64_t Store::all_bytes() const {
  int64_t all = 0;
  for (const auto& [name, entry] : entries_) {
    all += entry.memory.size() + (entry.turned ? entry.turned->size() : 0);
  }
  return all;
}

std::vector<std::string> Store::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

void Store::write(const std::string& name, std::span<const float> values) {
  const Buffer& buffer = at(name);
  if (static_cast<int64_t>(values.size()) != buffer.count() || buffer.kind != Kind::real) {
    throw Bug("{}: {} numbers written to {}", name, values.size(), to_string(buffer.shape));
  }
  if (buffer.device == nullptr) return cpu::store(buffer, 0, buffer.count(), values.data());
  std::vector<std::byte> codes(static_cast<size_t>(bytes_of(buffer)));
  Buffer staged = buffer;
  staged.data = codes.data();
  cpu::store(staged, 0, staged.count(), values.data());
  write_codes(buffer, codes.data(), bytes_of(buffer));
}

void Store::write_codes(const Buffer& to, const void* codes, int64_t bytes) {
  device_.write(to.data, codes, bytes);
  if (to.turned) device_.turn(to);
}

void Store::write_indices(const std::string& name, std::span<const int32_t> values) {
  const Buffer& buffer = at(name);
  if (static_cast<int64_t>(values.size()) != buffer.count() || buffer.kind != Kind::index) {
    throw Bug("{}: {} indices written to {}", name, values.size(), to_string(buffer.shape));
  }
  device_.write(buffer.data, values.data(), static_cast<int64_t>(values.size_bytes()));
}

void Store::fill(const std::string& name, float value) {
  write(name, std::vector<float>(static_cast<size_t>(at(name).count()), value));
}

std::vector<float> Store::read(const std::string& name) const { return read_floats(at(name)); }

void Store::copy(const std::string& name, const Store& from) {
  const Buffer &source = from.at(name), &target = at(name);
  bool stays_here = &device_ == &from.device_ && source.shape == target.shape;
  // A cast that rounds is told how by a program.
  if (!stays_here || !target.is_fp32()) return write(name, from.read(name));
  const Attributes none;
  const float factor = 1;
  const RandomStream random(0, name);
  device_.find_kernel(identity_op)
      .run({.inputs = {&source, 1},
            .outputs = {&target, 1},
            .attributes = none,
            .factors = {&factor, 1},
            .random = {&random, 1},
            .workspace = {}});
}

std::vector<std::byte> Store::read_bytes(const std::string& name) const {
  std::vector<std::byte> read(static_cast<size_t>(bytes(name)));
  device_.read(read.data(), at(name).data, bytes(name));
  return read;
}

void Store::write_bytes(const std::string& name, std::span<const std::byte> values) {
  if (static_cast<int64_t>(values.size()) != bytes(name)) {
    throw Bug("{}: {} bytes written to {}", name, values.size(), bytes(name));
  }
  write_codes(at(name), values.data(), bytes(name));
}

}  // namespace sigma1
