// NVIDIA GPUs as devices. All work of a thread is in the order of one stream.
#pragma once

#include "sigma1/backend/device.h"

namespace sigma1 {

// How many there are; 0 also where the driver is missing.
int cuda_device_count();

// Whether products of fp32 round their factors to TF32, 10 bits of mantissa, for tensor cores.
enum class Fp32Products { full, tf32 };

// Throws Error in one line where there is no such GPU.
const Device& cuda_device(int index = 0, Fp32Products products = Fp32Products::full);
Fp32Products fp32_products(const Device& device);  // of a cuda_device

}  // namespace sigma1
