#include "tools/sigma1/model_source.h"

#include <fmt/format.h>

#include <filesystem>

namespace sigma1 {

Checkpoint open_model(const std::string& path) {
  if (!std::filesystem::is_directory(path)) return load_checkpoint(path);
  std::filesystem::path inner = std::filesystem::path(path) / "checkpoints";
  Checkpoint checkpoint =
      latest_checkpoint(std::filesystem::exists(inner) ? inner : std::filesystem::path(path));
  for (const std::string& warning : checkpoint.warnings)
    fmt::print(stderr, "sigma1: {}\n", warning);
  return checkpoint;
}

}  // namespace sigma1
