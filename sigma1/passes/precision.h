// Which format each kind of tensor is stored in: what --precision and its finer flags say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "sigma1/numerics/quantize.h"

namespace sigma1 {

// How a cast before a matrix product finds its scale.
enum class CastScaling {
  none,     // 1: unit scaling's, or nobody's
  current,  // from the tensor's own largest magnitude
  delayed,  // from the largest of the last steps'
};

struct Precision {
  // Formats by role: fp32, fp16, bf16 or any name that find_format() knows.
  std::string activations = "fp32", weights = "fp32", gradients = "fp32";
  std::string moment = "fp32", second_moment = "fp32";  // of the optimiser
  // What the inputs of matrix products are cast to: fp8 (E4M3, and E5M2 for gradients), a format,
  // or "stored": nothing.
  std::string matmul = "stored";
  // Matrix products that differ, by name; the last that matches counts. A pattern is a node's path,
  // the start of one, or has * in it.
  struct Override {
    std::string pattern, format;

    bool names(std::string_view node_name) const;
  };
  std::vector<Override> overrides;
  CastScaling scaling = CastScaling::none;
  bool stochastic_weights = false;  // round stored weights stochastically
  bool master_weights = false;      // the optimiser keeps an fp32 copy

  // fp32, bf16, fp16 or fp8. As in the paper fp16 is everywhere but in the second moment, and fp8
  // is fp16 with fp8 matrix products except the vocabulary's, `head` or `mlm/scores`. Weights below
  // fp32 are rounded stochastically, as the paper's hardware did: late in training a step is
  // smaller than half their last place.
  static Precision named(std::string_view name);

  // What the products of a node are cast to.
  const std::string& matmul_format(std::string_view node_name) const;
};

// Throws Error when a format has no such name or is too wide to store.
void check_formats(const Precision& precision);

// Stored tensors overflow to infinity where the format has one, so that nothing is hidden; a cast
// for a product saturates.
Cast storage_cast(std::string_view format);
Cast product_cast(std::string_view format);

}  // namespace sigma1
