#include "sigma1/data/windows.h"

#include <algorithm>

#include "sigma1/base/error.h"
#include "sigma1/base/rng.h"

namespace sigma1 {
namespace {

void check(const WindowSizes& sizes) {
  if (sizes.context < 0 || sizes.length <= sizes.context)
    throw Error("expected windows longer than their context, which is 0 or more, got {} and {}",
                sizes.length, sizes.context);
}

Batch empty_batch(int64_t sequences, const WindowSizes& sizes) {
  check(sizes);
  if (sequences < 1) throw Error("expected a batch of at least 1 sequence, got {}", sequences);
  auto size = static_cast<size_t>(sequences * sizes.length);
  return {std::vector<uint16_t>(size), std::vector<float>(size), sequences, sizes.length};
}

// Copies the text from `begin` on and counts its positions [count_from, count_to).
void fill(Batch& batch, int64_t sequence, std::span<const uint16_t> text, int64_t begin,
          int64_t count_from, int64_t count_to) {
  auto text_length = static_cast<int64_t>(text.size());
  int64_t row = sequence * batch.length;
  std::copy(text.begin() + begin, text.begin() + std::min(begin + batch.length, text_length),
            batch.tokens.begin() + row);
  std::fill(batch.mask.begin() + row + (count_from - begin),
            batch.mask.begin() + row + (std::min(count_to, text_length) - begin), 1.0f);
}

// Two words, as one would favour some starts of a long text; what 64 bits favour cannot be noticed.
int64_t draw_below(int64_t bound, const RandomStream& random, uint64_t index) {
  uint64_t word = static_cast<uint64_t>(random.bits(2 * index)) << 32 | random.bits(2 * index + 1);
  return static_cast<int64_t>(word % static_cast<uint64_t>(bound));
}

}  // namespace

Batch training_batch(std::span<const uint16_t> text, int64_t sequences, uint64_t seed,
                     uint64_t step, WindowSizes sizes) {
  Batch batch = empty_batch(sequences, sizes);
  int64_t starts = static_cast<int64_t>(text.size()) - sizes.length + 1;
  if (starts < 1)
    throw Error("expected a training text of at least one window, {} tokens, got {}", sizes.length,
                text.size());
  RandomStream random(seed, "batches", step);
  for (int64_t i = 0; i < sequences; ++i) {
    int64_t begin = draw_below(starts, random, static_cast<uint64_t>(i));
    fill(batch, i, text, begin, begin + sizes.context, begin + sizes.length);
  }
  return batch;
}

int64_t evaluation_windows(int64_t text_length, WindowSizes sizes) {
  check(sizes);
  return (text_length + sizes.targets() - 1) / sizes.targets();
}

Batch evaluation_batch(std::span<const uint16_t> text, int64_t first, int64_t sequences,
                       WindowSizes sizes) {
  Batch batch = empty_batch(sequences, sizes);
  if (first < 0) throw Error("expected a first window of 0 or more, got {}", first);
  int64_t there = evaluation_windows(static_cast<int64_t>(text.size()), sizes) - first;
  for (int64_t i = 0; i < std::min(sequences, there); ++i) {
    int64_t start = (first + i) * sizes.targets();
    fill(batch, i, text, std::max<int64_t>(0, start - sizes.context), start,
         start + sizes.targets());
  }
  return batch;
}

}  // namespace sigma1
