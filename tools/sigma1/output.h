// What every subcommand prints: a table for people or JSON for programs.
#pragma once

#include <nlohmann/json.hpp>

#include "sigma1/base/table.h"

namespace sigma1 {

void print_json(const nlohmann::ordered_json& json);

// A number that survives JSON, which has no infinity and no NaN: those become strings.
nlohmann::ordered_json json_number(double value);

}  // namespace sigma1
