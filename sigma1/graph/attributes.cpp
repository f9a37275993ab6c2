#include "sigma1/graph/attributes.h"

#include <fmt/ranges.h>

#include <type_traits>

namespace sigma1 {

std::string to_string(const Attribute& attribute) {
  return std::visit([](const auto& value) { return fmt::format("{}", value); }, attribute);
}

void Attributes::set(std::string_view name, Attribute value) {
  for (Entry& entry : entries_) {
    if (entry.first != name) continue;
    entry.second = std::move(value);
    return;
  }
  entries_.emplace_back(std::string(name), std::move(value));
}

}  // namespace sigma1
