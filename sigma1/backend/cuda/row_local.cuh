// Which ops treat each row alone, and which of their inputs have rows. Private to this folder.
#pragma once

#include <optional>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/backend/device.h"

namespace sigma1::cuda {

int64_t width_of(const Buffer& buffer);

bool is_product(const OpDef& op);
bool is_norm(const OpDef& op);
bool is_norm_grad(const OpDef& op);

// Whether a row of the result depends on other rows of its sample too: attention, convolution over
// time and the gradient of what that reads.
bool is_reaching(const OpDef& op);

// Of numbers at their own scale in a format that the GPU has; nothing for others.
std::optional<Type> plain_type(const Buffer& buffer);

// Whether input i has a row for each of the output's, rather than being one for all.
bool is_row_input(const OpDef& op, size_t i, size_t inputs);

// A type of 16 bits that all rows have, or fp32 where there is none.
Type common_type(std::span<const ChainStep> steps);

// Whether step s of a row chain is a pointwise op that begins with the result of the step before:
// whoever computes that can carry it out at once.
bool joins(std::span<const ChainStep> steps, size_t s);

}  // namespace sigma1::cuda
