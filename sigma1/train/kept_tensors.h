// What a checkpoint holds, wherever it is: a rank may keep the optimiser's state of some parameters
// only.
#pragma once

#include <string>
#include <vector>

#include "sigma1/runtime/store.h"
#include "sigma1/train/rank_exchange.h"

namespace sigma1 {

struct KeptTensor {
  std::string name, dtype;
  Shape shape;
  int64_t bytes = 0;
  int64_t owner = -1;  // the rank that has it; −1: all have
};

// Everything an update graph of all parameters writes, without copies; `as_copies`: parameters that
// only their owners have. Throws Error for a format that no checkpoint can hold: that should not be
// found out after hours.
std::vector<KeptTensor> kept_tensors(const StepGraph& update, const Owners& owners,
                                     const std::set<std::string>& as_copies);
// One that is in the store.
KeptTensor kept_tensor(const Store& store, const std::string& name);

// Its bytes, in the first rank; all ranks call it. Nothing in others.
std::vector<std::byte> bytes_in_first_rank(const Store& store, const KeptTensor& tensor);

}  // namespace sigma1
