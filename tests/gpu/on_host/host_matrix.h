// What a CUtensorMap is where kernels run on the CPU: a matrix of numbers of 16 bits.
#pragma once

#include <cstddef>

struct HostMatrix {
  const std::byte* numbers;
  int width, height;
};
