// How long a kernel takes on the GPU as a step runs it: in a CUDA graph, one launch after another.
#pragma once

#include <functional>

#include "tests/conformance/kernel_call.h"

namespace sigma1 {

// Of one run of `body`, which launches kernels: the mean of as many in one graph.
double microseconds_of(int launches, const std::function<void()>& body);

// Of one run of the call's kernel on its inputs, the mean of many.
double microseconds_of(const KernelCall& call, const Attributes& attributes);

}  // namespace sigma1
