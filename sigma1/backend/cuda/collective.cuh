// What ranks on GPUs do for each other besides the ops of a graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sigma1::cuda {

// Device::share_largest.
void share_largest(std::span<uint32_t> words, std::span<std::byte> room);

}  // namespace sigma1::cuda
