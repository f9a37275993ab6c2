#include "sigma1/backend/devices.h"

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"

#ifdef SIGMA1_CUDA
#include "sigma1/backend/cuda/device.h"
#endif

namespace sigma1 {
namespace {

#ifndef SIGMA1_CUDA
int cuda_device_count() { return 0; }

const Device& cuda_device(int) {
  throw Error("device cuda: this sigma1 was built without CUDA; configure with -DSIGMA1_CUDA=ON");
}
#endif

}  // namespace

const Device& find_device(std::string_view name) {
  if (name == "cpu") return cpu_device();
  if (name == "cuda") return cuda_device(0);
  if (name == "auto") return cuda_device_count() > 0 ? cuda_device(0) : cpu_device();
  constexpr std::string_view kIndexed = "cuda:";
  if (name.starts_with(kIndexed)) {
    std::optional<double> index = parse_number(name.substr(kIndexed.size()));
    if (index && *index >= 0 && *index < 1024 && *index == static_cast<int>(*index)) {
      return cuda_device(static_cast<int>(*index));
    }
  }
  throw Error("device: expected auto, cpu, cuda or cuda:N, got '{}'", name);
}

}  // namespace sigma1
