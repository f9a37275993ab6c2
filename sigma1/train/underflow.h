// How many gradients a run's formats turn to zero: its gradient step beside the same step in fp32,
// on the same weights and batch.
#pragma once

#include <string>
#include <vector>

#include "sigma1/train/session.h"

namespace sigma1 {

struct TensorUnderflow {
  std::string name;  // of the node
  double lost = 0;   // share of the numbers that are not zero in fp32 but are here
  int64_t count = 0;
};

struct Underflow {
  double lost = 0;  // over all gradients, weighted by size
  std::vector<TensorUnderflow> tensors;

  // The largest loss of any tensor; empty name when nothing is lost.
  TensorUnderflow worst() const;
};

Underflow measure_underflow(const Session& session, const ModelBatch& batch);

}  // namespace sigma1
