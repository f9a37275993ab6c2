#include "sigma1/backend/collective_layout.h"

#include "sigma1/base/error.h"
#include "sigma1/passes/precision.h"

namespace sigma1::collective {

int64_t checked_world(const Launch& launch) {
  auto world = launch.attr<int64_t>("world");
  if (world != ranks().size()) throw Bug("a graph for {} ranks runs in {}", world, ranks().size());
  return world;
}

const std::vector<int64_t>& owners_of(const Launch& launch) {
  return launch.attr<std::vector<int64_t>>("owners");
}

int64_t total_count(const Launch& launch) {
  int64_t total = 0;
  for (const Buffer& each : launch.inputs) total += each.count();
  return total;
}

int64_t bytes_per_number(const Buffer& buffer) {
  return buffer.codec ? buffer.codec->bytes() : static_cast<int64_t>(sizeof(float));
}

Buffer wire_of(const Launch& launch, std::byte* data) {
  return {data, shared_codec(storage_cast(launch.attr<std::string>("format"))), {}};
}

int64_t OwnersCut::first(int64_t rank) const {
  int64_t sum = 0;
  for (size_t i = 0; i < launch.inputs.size(); ++i) {
    if (owners_of(launch)[i] < rank) sum += size(launch.in(i));
  }
  return sum;
}

int64_t OwnersCut::most() const {
  int64_t most = 0;
  for (int64_t r = 0; r < world; ++r) most = std::max(most, count(r));
  return most;
}

}  // namespace sigma1::collective
