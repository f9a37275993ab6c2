// NVIDIA GPUs as devices. All work of a device is in the order of one stream.
#pragma once

#include "sigma1/backend/device.h"

namespace sigma1 {

// How many there are; 0 also where the driver is missing.
int cuda_device_count();

// Throws Error in one line where there is no such GPU.
const Device& cuda_device(int index = 0);

}  // namespace sigma1
