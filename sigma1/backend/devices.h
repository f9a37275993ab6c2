// Devices by name, as the command line has them.
#pragma once

#include <string>
#include <string_view>

#include "sigma1/backend/device.h"

namespace sigma1 {

// What of a GPU's kernels is the user's choice.
struct ProductChoices {
  bool tf32 = false;  // factors of fp32 are rounded to TF32, 10 bits of mantissa, for tensor cores
  // Of factors of 8 bits: tensor cores keep about 14 bits of a sum (fast), unless partial sums are
  // often added up in fp32 (exact). By length: sums of up to 4,096 terms are fast.
  enum class Sums { by_length, fast, exact } sums = Sums::by_length;

  // Tests alone choose these, to compare kernels with those apart that they are made of: the
  // gradient of attention writes the 8-bit factors made of its results; attention and convolution
  // of a small model begin the chain of rows behind them.
  bool casts_in_attention = true;
  bool whole_layers = true;

  auto operator<=>(const ProductChoices&) const = default;
};
std::string to_string(const ProductChoices& choices);  // as behind a device's name

// "cpu"; "cuda" or "cuda:1", followed by choices, such as +tf32; "auto": a GPU where this build and
// machine have one, else the CPU. Without a number, rank r of a machine's ranks gets GPU r, or
// shares it where there are fewer. Throws Error in one line saying what is missing.
const Device& find_device(std::string_view name);

// What this build can do.
bool has_cuda();
bool has_nccl();  // whether ranks that have a GPU each can talk without the host

}  // namespace sigma1
