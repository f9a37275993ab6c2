// Devices by name, as the command line has them.
#pragma once

#include <string_view>

#include "sigma1/backend/device.h"

namespace sigma1 {

// "cpu"; "cuda" or "cuda:1", "cuda+tf32" or "cuda:1+tf32" for products of fp32 in TF32; "auto": the
// first GPU where this build and machine have one, else the CPU. Throws Error in one line saying
// what is missing.
const Device& find_device(std::string_view name);

}  // namespace sigma1
