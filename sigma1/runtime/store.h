// What outlives a step, by name: parameters, optimiser state, gradients, and the inputs of
// programs. Several programs may share one store.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sigma1/backend/cpu/kernel.h"

namespace sigma1 {

// Memory aligned for any vector instruction, zero at first.
class AlignedBytes {
 public:
  explicit AlignedBytes(int64_t size);
  std::byte* data() const { return data_.get(); }
  int64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  int64_t size_;
};

class Store {
 public:
  // Zeros. Throws Error when the name is taken by a tensor of another type or format.
  void create(const std::string& name, const TensorType& type, const Cast& cast);

  bool contains(const std::string& name) const { return entries_.contains(name); }
  // Throws Bug when there is none.
  const cpu::Buffer& at(const std::string& name) const;
  int64_t bytes(const std::string& name) const;
  std::vector<std::string> names() const;

  void write(const std::string& name, std::span<const float> values);
  void write_indices(const std::string& name, std::span<const int32_t> values);
  void fill(const std::string& name, float value);
  std::vector<float> read(const std::string& name) const;

 private:
  struct Entry {
    AlignedBytes memory;
    cpu::Buffer buffer;
  };
  std::map<std::string, Entry> entries_;
};

// Bytes of one element as stored.
int64_t element_bytes(Kind kind, const Cast& cast);
// All elements as fp32.
std::vector<float> read_floats(const cpu::Buffer& buffer);

}  // namespace sigma1
