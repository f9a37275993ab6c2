// The paper's batches for character models: windows of 256 characters whose first 32 are read but
// not counted, so that every counted character is predicted from at least 32 others.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sigma1 {

struct WindowSizes {
  int64_t length = 256;
  int64_t context = 32;

  int64_t targets() const { return length - context; }
};

// Sequences lie one after another. Token t is predicted from those before it in its sequence, and
// mask[t] is 1 where that prediction counts, else 0.
struct Batch {
  std::vector<uint16_t> tokens;
  std::vector<float> mask;
  int64_t sequences = 0, length = 0;
};

// The batch of one step, whose windows start anywhere, with replacement. A pure function: a run
// that is resumed sees what it would have seen. Throws Error when the text is shorter than a
// window.
Batch training_batch(std::span<const uint16_t> text, int64_t sequences, uint64_t seed,
                     uint64_t step, WindowSizes sizes = {});

// How many windows count every token of a text of this length once.
int64_t evaluation_windows(int64_t text_length, WindowSizes sizes = {});

// Windows first, first + 1, … of those. The first window of a text counts its context too, as no
// other does. What lies beyond the text is token 0, masked; so are whole windows beyond the last,
// to keep batches the same size.
Batch evaluation_batch(std::span<const uint16_t> text, int64_t first, int64_t sequences,
                       WindowSizes sizes = {});

}  // namespace sigma1
