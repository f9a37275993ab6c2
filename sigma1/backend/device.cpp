#include "sigma1/backend/device.h"

namespace sigma1 {

DeviceBytes::DeviceBytes(const Device& device, int64_t size)
    : data_(device.allocate(size), Release{&device}), size_(size) {}

}  // namespace sigma1
