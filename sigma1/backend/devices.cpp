#include "sigma1/backend/devices.h"

#include <algorithm>

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

const Device& cuda_device(int, const ProductChoices&) {
  throw Error("device cuda: this sigma1 was built without CUDA; configure with -DSIGMA1_CUDA=ON");
}
#endif

using Sums = ProductChoices::Sums;
constexpr std::string_view kTf32 = "+tf32", kFast = "+fast-sums", kExact = "+exact-sums",
                           kTall = "+tall-rows";
constexpr std::pair<std::string_view, int> kSwapped[] = {
    {"+swapped-rows=1", 1}, {"+swapped-rows=2", 2}, {"+swapped-rows=4", 4}};

// Takes the choices off the end of a name.
ProductChoices take_choices(std::string_view& name) {
  ProductChoices choices;
  auto take = [&](std::string_view suffix) {
    bool found = name.ends_with(suffix);
    if (found) name.remove_suffix(suffix.size());
    return found;
  };
  auto take_cluster = [&] {
    for (const auto& [suffix, cluster] : kSwapped) {
      if (take(suffix)) return cluster;
    }
    return 0;
  };
  while (true) {
    if (take(kTf32)) {
      choices.tf32 = true;
    } else if (take(kFast)) {
      choices.sums = Sums::fast;
    } else if (take(kExact)) {
      choices.sums = Sums::exact;
    } else if (take(kTall)) {
      choices.tall_rows = true;
    } else if (int cluster = take_cluster(); cluster > 0) {
      choices.swapped_rows = cluster;
    } else {
      return choices;
    }
  }
}

// Ranks of a machine share its GPUs out.
int gpu_of_rank() { return ranks().rank_on_this_machine() % std::max(1, cuda_device_count()); }

}  // namespace

#ifdef SIGMA1_CUDA
bool has_cuda() { return true; }
#else
bool has_cuda() { return false; }
bool has_nccl() { return false; }
#endif

std::string to_string(const ProductChoices& choices) {
  std::string text(choices.tf32 ? kTf32 : "");
  if (choices.sums != Sums::by_length) text += choices.sums == Sums::fast ? kFast : kExact;
  if (choices.tall_rows) text += kTall;
  for (const auto& [name, cluster] : kSwapped) {
    if (choices.swapped_rows == cluster) text += name;
  }
  return text;
}

const Device& find_device(std::string_view name) {
  constexpr std::string_view kGpu = "cuda";
  if (name == "cpu") return cpu_device();
  if (name == "auto") return cuda_device_count() > 0 ? find_device(kGpu) : cpu_device();
  std::string_view rest = name;
  ProductChoices choices = take_choices(rest);
  if (rest == kGpu) return cuda_device(gpu_of_rank(), choices);
  if (rest.starts_with("cuda:")) {
    std::optional<double> index = parse_number(rest.substr(kGpu.size() + 1));
    if (index && *index >= 0 && *index < 1024 && *index == static_cast<int>(*index)) {
      return cuda_device(static_cast<int>(*index), choices);
    }
  }
  throw Error(
      "device: expected auto, cpu, cuda, cuda:N or either with +tf32, +fast-sums, +exact-sums, "
      "+tall-rows, +swapped-rows=1, 2 or 4, got '{}'",
      name);
}

}  // namespace sigma1
