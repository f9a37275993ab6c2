#include "sigma1/backend/devices.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "sigma1/base/communicator.h"
#include "sigma1/base/error.h"
#include "sigma1/base/text.h"

#ifdef SIGMA1_CUDA
#include "sigma1/backend/cuda/device.h"
#endif

namespace sigma1 {
namespace {

#ifndef SIGMA1_CUDA
int cuda_device_count() { return 0; }
bool cuda_device_suits(int) { return false; }

const Device& cuda_device(int, const ProductChoices&) {
  throw Error("device cuda: this sigma1 was built without CUDA; 'make cuda' builds one with it");
}
#endif

using Sums = ProductChoices::Sums;

struct Choice {
  std::string_view name;
  bool (*is_made)(const ProductChoices&);
  void (*make)(ProductChoices&);
};

template <auto kMember, auto kValue>
constexpr Choice choice(std::string_view name) {
  return {name, [](const ProductChoices& choices) { return choices.*kMember == kValue; },
          [](ProductChoices& choices) { choices.*kMember = kValue; }};
}

constexpr Choice kChoices[] = {
    choice<&ProductChoices::tf32, true>("+tf32"),
    choice<&ProductChoices::sums, Sums::fast>("+fast-sums"),
    choice<&ProductChoices::sums, Sums::exact>("+exact-sums"),
};

// Takes the choices off the end of a name.
ProductChoices take_choices(std::string_view& name) {
  ProductChoices choices;
  while (true) {
    auto last = std::ranges::find_if(kChoices,
                                     [&](const Choice& each) { return name.ends_with(each.name); });
    if (last == std::end(kChoices)) return choices;
    last->make(choices);
    name.remove_suffix(last->name.size());
  }
}

// Ranks of a machine share its GPUs out.
int gpu_of_rank() { return ranks().rank_on_this_machine() % std::max(1, cuda_device_count()); }

bool has_gpu() { return cuda_device_count() > 0 && cuda_device_suits(gpu_of_rank()); }

}  // namespace

#ifdef SIGMA1_CUDA
bool has_cuda() { return true; }
#else
bool has_cuda() { return false; }
bool has_nccl() { return false; }
#endif

std::string to_string(const ProductChoices& choices) {
  std::string text;
  for (const Choice& each : kChoices) {
    if (each.is_made(choices)) text += each.name;
  }
  return text;
}

const Device& find_device(std::string_view name) {
  constexpr std::string_view kGpu = "cuda";
  if (name == "cpu") return cpu_device();
  if (name == "auto") return has_gpu() ? find_device(kGpu) : cpu_device();
  std::string_view rest = name;
  ProductChoices choices = take_choices(rest);
  if (rest == kGpu) return cuda_device(gpu_of_rank(), choices);
  if (rest.starts_with("cuda:")) {
    std::optional<double> index = parse_number(rest.substr(kGpu.size() + 1));
    if (index && *index >= 0 && *index < 1024 && *index == static_cast<int>(*index)) {
      return cuda_device(static_cast<int>(*index), choices);
    }
  }
  std::vector<std::string_view> names;
  for (const Choice& each : kChoices) names.push_back(each.name);
  throw Error("device: expected auto, cpu, cuda, cuda:N or either with some of {}, got '{}'",
              fmt::join(names, ", "), name);
}

}  // namespace sigma1
