#include "tools/sigma1/output.h"

#include <fmt/format.h>

#include <cmath>

namespace sigma1 {

void print_json(const nlohmann::ordered_json& json) {
  // A file's name may be no UTF-8; that it is shown differs must not cost a result.
  fmt::print("{}\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

nlohmann::ordered_json json_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return value;
}

}  // namespace sigma1
