// What a run is made with and on, for its record.
#pragma once

#include <string>

namespace sigma1 {

std::string version();         // of sigma1: "0.1.0"
std::string processor_name();  // "AMD EPYC 9354"; "unknown" where the system does not say

}  // namespace sigma1
