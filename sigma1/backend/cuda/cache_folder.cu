#include "sigma1/backend/cuda/cache_folder.cuh"

#include <cstdlib>

namespace sigma1::cuda {

std::filesystem::path cache_folder() {
  auto folder_in = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::filesystem::path(value && *value ? value : "");
  };
  if (auto cache = folder_in("XDG_CACHE_HOME"); !cache.empty()) return cache / "sigma1";
  std::filesystem::path home = folder_in("HOME");
  return home.empty() ? home : home / ".cache" / "sigma1";
}

}  // namespace sigma1::cuda
