// Batches of prepared pairs for model `bert`: in an order of their own each time through, and with
// tokens masked as Devlin et al. (2019) do: 15 %, of which 80 % become [MASK], 10 % any token and
// 10 % stay. Every number is a pure function of (seed, place in the run, file), so that a run that
// is resumed sees what it would have seen.
#pragma once

#include <cstdint>
#include <vector>

#include "sigma1/data/bert_instances.h"

namespace sigma1 {

// The model's inputs, sequence after sequence (models/bert.h).
struct BertBatch {
  std::vector<int32_t> tokens, segments;
  std::vector<float> padding;
  std::vector<int32_t> masked_positions, masked_labels;
  std::vector<float> masked_weights;  // 0 where none is masked; their mean is 1
  std::vector<int32_t> next_sentence;
};

// Records [first, first + count) of a file.
struct BertRange {
  const BertInstances& instances;
  int64_t first = 0, count = 0;
};

struct BertMasking {
  int64_t predictions = 20;
  double share = 0.15;
};

// Sequences index·size … of an endless row of passes over the range, each pass in a random order.
BertBatch training_batch(const BertRange& range, int64_t size, uint64_t seed, uint64_t index,
                         const BertMasking& masking = {});

// Records from `first` on, in their order. Masks depend on the record alone. What lies beyond the
// range is its first record again, and counts nothing: masked_weights of 0.
BertBatch evaluation_batch(const BertRange& range, int64_t size, int64_t first,
                           const BertMasking& masking = {});

// Where i of 0 … count − 1 goes in a random order.
int64_t shuffled_place(int64_t i, int64_t count, uint64_t seed, uint64_t pass);

}  // namespace sigma1
