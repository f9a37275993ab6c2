// How long a kernel takes on the GPU as a step runs it: in a CUDA graph, one launch after another.
#pragma once

#include "tests/conformance/kernel_call.h"

namespace sigma1 {

// Of one run of the call's kernel on its inputs, the mean of many.
double microseconds_of(const KernelCall& call, const Attributes& attributes);

}  // namespace sigma1
