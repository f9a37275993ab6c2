// Where what was found out about a GPU, or compiled for it, is kept from run to run. Private to
// this folder.
#pragma once

#include <filesystem>

namespace sigma1::cuda {

// Empty where there is none. It need not exist.
std::filesystem::path cache_folder();

}  // namespace sigma1::cuda
