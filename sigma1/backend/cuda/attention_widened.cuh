// Attention of 8-bit inputs by the kernels of fp16, which holds their numbers exactly: the tensor
// cores' products inside attention are of 16 bits. Private to this folder.
#pragma once

#include <vector>

#include "sigma1/backend/kernel.h"

namespace sigma1::cuda {

class WidenedInputs {
 public:
  // None is widened where fp16 would not do for all.
  explicit WidenedInputs(const Launch& launch);

  int64_t bytes() const { return bytes_; }
  // The launch with inputs of fp16, in the first bytes() of its workspace where they were widened.
  // Before it is run, widen() writes them.
  Launch launch() const;
  void widen() const;

 private:
  const Launch& from_;
  std::vector<Buffer> inputs_;
  int64_t bytes_ = 0;
};

}  // namespace sigma1::cuda
