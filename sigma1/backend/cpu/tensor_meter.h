// What tensors' numbers are like, found on all threads; the same bits on any number of them.
// Private to this folder.
#pragma once

#include "sigma1/backend/device.h"

namespace sigma1::cpu {

std::unique_ptr<TensorMeter> make_meter();

}  // namespace sigma1::cpu
