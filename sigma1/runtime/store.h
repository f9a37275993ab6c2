// What outlives a step, by name: parameters, optimiser state, gradients, and the inputs of
// programs. Several programs may share one store.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sigma1/backend/device.h"

namespace sigma1 {

class Store {
 public:
  explicit Store(const Device& device = cpu_device()) : device_(device) {}
  const Device& device() const { return device_; }

  // Zeros. Throws Error when the name is taken by a tensor of another type or format.
  void create(const std::string& name, const TensorType& type, const Cast& cast);

  // Has a tensor in both orientations from now on (Buffer::turned), whoever writes it. Throws Bug
  // where a program writes it that knows of one.
  void keep_turned(const std::string& name);
  // A program does: what it does not know, it will not write.
  void written_by_program(const std::string& name) { entries_.at(name).written = true; }
  // Forgets a tensor. No program that reads or writes it may be run any more.
  void remove(const std::string& name) { entries_.erase(name); }

  bool contains(const std::string& name) const { return entries_.contains(name); }
  // Throws Bug when there is none.
  const Buffer& at(const std::string& name) const;
  int64_t bytes(const std::string& name) const;  // in one orientation
  int64_t all_bytes() const;                     // of all tensors
  std::vector<std::string> names() const;

  void write(const std::string& name, std::span<const float> values);
  void write_indices(const std::string& name, std::span<const int32_t> values);
  void fill(const std::string& name, float value);
  std::vector<float> read(const std::string& name) const;
  // The numbers of the same tensor of another store, whatever formats they have.
  void copy(const std::string& name, const Store& from);
  // As they are stored.
  std::vector<std::byte> read_bytes(const std::string& name) const;
  void write_bytes(const std::string& name, std::span<const std::byte> bytes);

 private:
  struct Entry {
    DeviceBytes memory;
    Buffer buffer;
    std::optional<DeviceBytes> turned;
    bool written = false;  // by a program
  };
  void write_codes(const Buffer& to, const void* codes, int64_t bytes);

  const Device& device_;
  std::map<std::string, Entry> entries_;
};

// Bytes of one element as stored.
int64_t element_bytes(Kind kind, const Cast& cast);
// A tensor in this process's memory: the same memory where it lies there, else a copy as of now.
class HostView {
 public:
  explicit HostView(const Buffer& buffer);
  HostView(const HostView&) = delete;  // its buffer points into it
  HostView& operator=(const HostView&) = delete;
  const Buffer& buffer() const { return buffer_; }

 private:
  std::vector<std::byte> copy_;
  float scale_ = 1;
  Buffer buffer_;
};

// All elements as fp32, wherever they lie.
std::vector<float> read_floats(const Buffer& buffer);

}  // namespace sigma1
