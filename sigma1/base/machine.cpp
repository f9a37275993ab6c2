#include "sigma1/base/machine.h"

#include <fstream>

namespace sigma1 {

std::string version() { return SIGMA1_VERSION; }

std::string processor_name() {
  std::ifstream cpus("/proc/cpuinfo");
  for (std::string line; std::getline(cpus, line);) {
    size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace sigma1
