// NVIDIA GPUs as devices. All work of a thread is in the order of one stream.
#pragma once

#include "sigma1/backend/devices.h"

namespace sigma1 {

// How many there are; 0 also where the driver is missing.
int cuda_device_count();

// Whether kernels run on that one: they are made for one generation.
bool cuda_device_suits(int index);

// Throws Error in one line where there is no such GPU, or it does not suit.
const Device& cuda_device(int index = 0, const ProductChoices& choices = {});
const ProductChoices& product_choices(const Device& device);  // of a cuda_device

}  // namespace sigma1
