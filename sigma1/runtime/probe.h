// What is found out about one tensor of a step: its numbers, and what the format it is multiplied
// or stored in loses of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sigma1/numerics/tensor_stats.h"

namespace sigma1 {

// As in the paper's histograms. gradx: the gradient of an activation; gradw: of a weight.
enum class TensorRole { activation, weight, gradx, gradw };

std::string_view to_string(TensorRole role);
std::optional<TensorRole> find_role(std::string_view name);

struct TensorScale {
  std::string name;  // of the forward tensor, or of the one whose gradient it is
  TensorRole role = TensorRole::activation;
  std::string format;  // what `loss` is about: "e4m3"
  TensorStats stats = {};
  FormatLoss loss = {};
  // The matrix products, by the names of their forward nodes, that read it in `format` where that
  // has fewer bits than it is stored in.
  std::vector<std::string> products = {};

  // Shares of all numbers.
  double zero() const;
  double subnormal() const;
  double saturated() const;
  double nonfinite() const;
  // Shares of the numbers that are not zero: those that become zero, and those that become zero or
  // are too large.
  double underflow() const;
  double lost() const;
};

}  // namespace sigma1
