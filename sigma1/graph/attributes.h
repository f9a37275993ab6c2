// The settings of a node (an axis, a probability, a temperature): named, typed, printable.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "sigma1/base/error.h"

namespace sigma1 {

using Attribute =
    std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>>;

std::string to_string(const Attribute& attribute);

class Attributes {
 public:
  using Entry = std::pair<std::string, Attribute>;

  Attributes() = default;
  Attributes(std::initializer_list<Entry> entries) : entries_(entries) {}

  template <class T>
  const T& get(std::string_view name) const {
    if (const T* value = std::get_if<T>(find(name))) return *value;
    throw Bug("attribute {} is missing or of another type", name);
  }
  template <class T>
  T get_or(std::string_view name, T otherwise) const {
    const T* value = std::get_if<T>(find(name));
    return value ? *value : otherwise;
  }
  void set(std::string_view name, Attribute value);

  const std::vector<Entry>& entries() const { return entries_; }
  bool operator==(const Attributes&) const = default;

 private:
  const Attribute* find(std::string_view name) const {
    for (const Entry& entry : entries_) {
      if (entry.first == name) return &entry.second;
    }
    return nullptr;
  }

  std::vector<Entry> entries_;
};

}  // namespace sigma1
