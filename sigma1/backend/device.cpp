#include "sigma1/backend/device.h"

#include <algorithm>
#include <cstring>

#include "sigma1/base/communicator.h"
#include "sigma1/base/error.h"

namespace sigma1 {

bool Device::reads_turned(const Graph&, int, size_t) const { return false; }
bool Device::takes_parts(const Graph&, int, size_t) const { return false; }
bool Device::gives_parts(const Graph&, int, size_t) const { return false; }
std::string Device::why_not_8_bits(const Graph&, int) const { return ""; }
bool Device::keeps_attention(const Graph&, int) const { return false; }

void Device::turn(const Buffer&) const { throw Bug("{} keeps nothing in two ways", name()); }

void Device::beside(const std::function<void()>& collectives) const { collectives(); }
void Device::join() const {}

// Of memory that this process sees.
void Device::share_largest(std::span<uint32_t> words, std::span<std::byte> room) const {
  using Piece = Communicator::Piece;
  auto bytes = static_cast<int64_t>(words.size_bytes());
  auto* own = reinterpret_cast<std::byte*>(words.data());
  std::vector<Piece> sends(static_cast<size_t>(ranks().size()), Piece{own, bytes}), receives;
  for (int r = 0; r < ranks().size(); ++r) receives.push_back({room.data() + r * bytes, bytes});
  ranks().exchange(sends, receives);
  for (const Piece& each : receives) {
    for (size_t i = 0; i < words.size(); ++i) {
      uint32_t word = 0;
      std::memcpy(&word, each.data + i * sizeof(word), sizeof(word));
      words[i] = std::max(words[i], word);
    }
  }
}

DeviceBytes::DeviceBytes(const Device& device, int64_t size)
    : data_(device.allocate(size), Release{&device}), size_(size) {}

}  // namespace sigma1
