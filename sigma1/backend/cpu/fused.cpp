#include "sigma1/backend/cpu/fused.h"

#include <algorithm>

#include "sigma1/base/parallel.h"

namespace sigma1::cpu {
namespace {

constexpr int64_t kBlock = 8 * kTile;

size_t tiles_needed(std::span<const FusedStep> steps) {
  size_t tiles = 0;
  for (const FusedStep& step : steps) tiles += 1 + step.producer.size();
  return tiles;
}

void run_tile(std::span<const FusedStep> steps, int64_t first, int64_t count, float* room,
              std::span<const float*> results, std::span<const float*> inputs) {
  int64_t whole = steps.back().launch.out().count();
  auto next_room = [&] { return std::exchange(room, room + kTile); };
  for (size_t s = 0; s < steps.size(); ++s) {
    const FusedStep& step = steps[s];
    for (size_t i = 0; i < step.producer.size(); ++i) {
      int producer = step.producer[i];
      inputs[i] = producer >= 0 ? results[static_cast<size_t>(producer)]
                                : load_tile(step.launch.in(i), first, count, whole, next_room());
    }
    bool last = s + 1 == steps.size();
    float* output = last ? target(step.launch.out(), first, next_room()) : next_room();
    step.tile(step.launch, first, count, inputs.data(), output);
    results[s] = output;
    if (last) store(step.launch.out(), first, count, output, step.launch.random[0]);
  }
}

}  // namespace

void run_fused(std::span<const FusedStep> steps) {
  size_t most_inputs = 0;
  for (const FusedStep& step : steps) most_inputs = std::max(most_inputs, step.producer.size());
  size_t pointers = steps.size() + most_inputs, pointer_floats = 2 * pointers;
  size_t tiles = tiles_needed(steps);
  auto size = static_cast<size_t>(steps.back().launch.out().count());
  parallel_for(size, static_cast<size_t>(kBlock), [&](size_t begin, size_t end) {
    float* room = thread_room(tiles * static_cast<size_t>(kTile) + pointer_floats);
    auto** table = reinterpret_cast<const float**>(room);
    std::span<const float*> results(table, steps.size()), inputs(table + steps.size(), most_inputs);
    for (auto first = static_cast<int64_t>(begin); first < static_cast<int64_t>(end);
         first += kTile) {
      int64_t count = std::min(kTile, static_cast<int64_t>(end) - first);
      run_tile(steps, first, count, room + pointer_floats, results, inputs);
    }
  });
}

}  // namespace sigma1::cpu
