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

enum class Fp32Products { full, tf32 };

const Device& cuda_device(int, Fp32Products) {
  throw Error("device cuda: this sigma1 was built without CUDA; configure with -DSIGMA1_CUDA=ON");
}
#endif

}  // namespace

const Device& find_device(std::string_view name) {
  constexpr std::string_view kGpu = "cuda", kRounded = "+tf32";
  if (name == "cpu") return cpu_device();
  if (name == "auto") return cuda_device_count() > 0 ? find_device(kGpu) : cpu_device();
  std::string_view rest = name;
  Fp32Products products = Fp32Products::full;
  if (rest.ends_with(kRounded)) {
    rest.remove_suffix(kRounded.size());
    products = Fp32Products::tf32;
  }
  if (rest == kGpu) return cuda_device(0, products);
  if (rest.starts_with("cuda:")) {
    std::optional<double> index = parse_number(rest.substr(kGpu.size() + 1));
    if (index && *index >= 0 && *index < 1024 && *index == static_cast<int>(*index)) {
      return cuda_device(static_cast<int>(*index), products);
    }
  }
  throw Error("device: expected auto, cpu, cuda, cuda:N or either with +tf32, got '{}'", name);
}

}  // namespace sigma1
