// The paper's figures of where the numbers of tensors lie, regular against unit-scaled.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sigma1/runtime/probe.h"

namespace sigma1 {

// Figure 1: every tensor of a feed-forward layer, in the order given; above its σ, below the
// histogram of its exponents, with the limits of the FP8 formats. Throws Error when there is no
// tensor at all.
std::string ffn_figure(std::span<const TensorScale> regular, std::span<const TensorScale> unit);

struct ScalePanel {
  std::string title;
  std::vector<TensorScale> tensors;  // in order of execution
};

// The paper's histograms of a whole model: a row for each tensor, role by role, panels beside one
// another. A tensor is the same in two panels when role and name are; several of one name are taken
// in order. Of a role with more than `most_rows` tensors the middle layers are left out and said to
// be; 0 shows all. Throws Error when there is no tensor at all.
std::string scales_figure(std::span<const ScalePanel> panels, size_t most_rows = 0);

}  // namespace sigma1
