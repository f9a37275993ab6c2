// Counts what this test program allocates: a step of training must allocate nothing.
#pragma once

#include <cstdint>

namespace sigma1 {

// Calls of operator new so far, of all threads or of this one.
int64_t allocation_count();
int64_t own_allocation_count();

}  // namespace sigma1
