// Softmax, and the losses a model ends in: these are what turns a number into a training signal.
#pragma once

#include "sigma1/graph/graph.h"

namespace sigma1 {

extern const OpDef softmax_op, softmax_xent_op, mse_op;
extern const OpDef softmax_grad_op, softmax_xent_grad_op;
// What a loss and its gradient become when a graph is lowered: logits, targets and perhaps weights
// → loss, dlogits, as if the gradient of the loss were 1.
extern const OpDef softmax_xent_with_grad_op;

// Over rows (cross-entropy) or elements (squared error).
enum class LossReduction { sum, mean };

// softmax(multiplier · x) over the last axis.
Value softmax(Value x, double multiplier = 1);
// −log softmax(logits)ₜ for logits[…, V] and targets[…]; weights[…] of 0 leave a row out. The mean
// is over all rows, left out or not, so that its gradient's scale is known beforehand.
Value softmax_xent(Value logits, Value targets, Value weights = {},
                   LossReduction reduction = LossReduction::sum);
// (x − target)²
Value mse(Value x, Value target, LossReduction reduction = LossReduction::sum);

}  // namespace sigma1
