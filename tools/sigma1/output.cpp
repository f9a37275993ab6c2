#include "tools/sigma1/output.h"

#include <fmt/format.h>

#include <cmath>

namespace sigma1 {

void print_json(const nlohmann::ordered_json& json) { fmt::print("{}\n", json.dump(2)); }

nlohmann::ordered_json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

}  // namespace sigma1
