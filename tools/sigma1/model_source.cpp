#include "tools/sigma1/model_source.h"

#include <fmt/format.h>

namespace sigma1 {

Checkpoint open_model(const std::string& path) {
  Checkpoint checkpoint = find_checkpoint(path);
  for (const std::string& warning : checkpoint.warnings)
    fmt::print(stderr, "sigma1: {}\n", warning);
  return checkpoint;
}

}  // namespace sigma1
