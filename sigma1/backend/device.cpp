#include "sigma1/backend/device.h"

#include "sigma1/base/error.h"

namespace sigma1 {

bool Device::reads_turned(const Graph&, int, size_t) const { return false; }
bool Device::takes_parts(const Graph&, int, size_t) const { return false; }
bool Device::gives_parts(const Graph&, int, size_t) const { return false; }
std::string Device::why_not_8_bits(const Graph&, int) const { return ""; }

void Device::turn(const Buffer&) const { throw Bug("{} keeps nothing in two ways", name()); }

std::optional<TensorStats> Device::stats(const Buffer&) const { return std::nullopt; }

std::optional<FormatLoss> Device::loss(const Buffer&, const FormatLimits&) const {
  return std::nullopt;
}

DeviceBytes::DeviceBytes(const Device& device, int64_t size)
    : data_(device.allocate(size), Release{&device}), size_(size) {}

}  // namespace sigma1
