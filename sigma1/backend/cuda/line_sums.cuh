// Sums over all rows that a line chain finds on its way, since it has in registers what they sum
// up: gradients of its norm's weights and biases, and the sum of a step's results, which is the
// gradient of a bias. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/line_plan.cuh"

namespace sigma1::cuda {

// Whether a step may be one, behind all others.
bool is_line_sum(const OpDef& op);

// Notes in the plan of `steps` what `sums` ask for; false where kernels cannot find them.
bool plan_sums(LinePlan& plan, std::span<const ChainStep> steps, std::span<const ChainStep> sums);

// Of a plan with sums.
LineShape shape_with_sums(const LinePlan& plan);

// Sets the rows of a block, so that all blocks run at once; gives their number.
unsigned cut_for_sums(LineCode& code, const LineShape& shape);

// Adds up what so many blocks have left.
void add_line_sums(const LineCode& code, unsigned blocks, std::span<const ChainStep> sums);

}  // namespace sigma1::cuda
