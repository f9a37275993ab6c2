#include "sigma1/data/squad_batch.h"

#include "sigma1/base/error.h"

namespace sigma1 {

SquadBatch squad_batch(const SquadFeatures& features, std::span<const size_t> windows,
                       int64_t time) {
  SquadBatch batch;
  size_t all = windows.size() * static_cast<size_t>(time);
  batch.tokens.resize(all, static_cast<int32_t>(features.pad));
  batch.segments.resize(all, 0);
  batch.padding.resize(all, 0);
  for (size_t row = 0; row < windows.size(); ++row) {
    const SquadWindow& window = features.windows[windows[row]];
    if (window.length > time) throw Bug("a window of {} tokens for {}", window.length, time);
    size_t first = row * static_cast<size_t>(time);
    std::vector<uint32_t> ids = features.ids(window);
    for (size_t i = 0; i < ids.size(); ++i) {
      batch.tokens[first + i] = static_cast<int32_t>(ids[i]);
      batch.segments[first + i] = static_cast<int64_t>(i) < window.context_at ? 0 : 1;
      batch.padding[first + i] = 1;
    }
    batch.start.push_back(static_cast<int32_t>(window.start_position));
    batch.end.push_back(static_cast<int32_t>(window.end_position));
  }
  return batch;
}

}  // namespace sigma1
