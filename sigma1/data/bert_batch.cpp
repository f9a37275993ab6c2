#include "sigma1/data/bert_batch.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "sigma1/base/error.h"
#include "sigma1/base/rng.h"

namespace sigma1 {
namespace {

BertBatch empty_batch(int64_t size, const BertRange& range, const BertMasking& masking) {
  if (size < 1) throw Error("expected a batch of at least 1 sequence, got {}", size);
  if (range.count < 1) throw Error("expected at least one pair of texts, got none");
  auto numbers = static_cast<size_t>(size * range.instances.facts().time);
  auto masked = static_cast<size_t>(size * masking.predictions);
  auto pad = static_cast<int32_t>(range.instances.facts().special.pad);
  return {.tokens = std::vector<int32_t>(numbers, pad),
          .segments = std::vector<int32_t>(numbers),
          .padding = std::vector<float>(numbers),
          .masked_positions = std::vector<int32_t>(masked),
          .masked_labels = std::vector<int32_t>(masked),
          .masked_weights = std::vector<float>(masked),
          .next_sentence = std::vector<int32_t>(static_cast<size_t>(size))};
}

// Positions that may be masked, the first `wanted` of which are a random choice in order.
std::vector<int32_t> choose_positions(const BertInstance& pair, const BertSpecialTokens& special,
                                      int64_t wanted, const RandomStream& random) {
  std::vector<int32_t> positions;
  for (size_t i = 0; i < pair.tokens.size(); ++i) {
    uint32_t token = pair.tokens[i];
    if (token != special.cls && token != special.sep) positions.push_back(static_cast<int32_t>(i));
  }
  auto chosen = std::min(static_cast<size_t>(wanted), positions.size());
  for (size_t i = 0; i < chosen; ++i) {
    auto left = static_cast<double>(positions.size() - i);
    size_t j = std::min(positions.size() - 1, i + static_cast<size_t>(random.uniform(i) * left));
    std::swap(positions[i], positions[j]);
  }
  positions.resize(chosen);
  std::ranges::sort(positions);
  return positions;
}

int32_t masked_token(int32_t token, const BertFileFacts& facts, const RandomStream& random,
                     size_t i) {
  double what = random.uniform(2 * i);
  if (what < 0.8) return static_cast<int32_t>(facts.special.mask);
  if (what < 0.9) return token;
  double any = random.uniform(2 * i + 1) * static_cast<double>(facts.vocabulary);
  return std::min(static_cast<int32_t>(any), static_cast<int32_t>(facts.vocabulary) - 1);
}

// `draw` names the random numbers: equal ones mask a record alike.
void fill(BertBatch& batch, int64_t row, const BertInstance& pair, const BertFileFacts& facts,
          const BertMasking& masking, uint64_t seed, uint64_t draw) {
  auto at = static_cast<size_t>(row * static_cast<int64_t>(facts.time));
  for (size_t i = 0; i < pair.tokens.size(); ++i) {
    batch.tokens[at + i] = pair.tokens[i];
    batch.segments[at + i] = static_cast<int64_t>(i) < pair.first_length ? 0 : 1;
    batch.padding[at + i] = 1;
  }
  batch.next_sentence[static_cast<size_t>(row)] = pair.is_random ? 1 : 0;
  auto share = std::lround(static_cast<double>(pair.length) * masking.share);
  int64_t wanted = std::min(masking.predictions, std::max<int64_t>(1, share));
  RandomStream where(seed, "bert masks", draw), what(seed, "bert mask kinds", draw);
  std::vector<int32_t> positions = choose_positions(pair, facts.special, wanted, where);
  auto first = static_cast<size_t>(row * masking.predictions);
  for (size_t i = 0; i < positions.size(); ++i) {
    int32_t& token = batch.tokens[at + static_cast<size_t>(positions[i])];
    batch.masked_positions[first + i] = positions[i];
    batch.masked_labels[first + i] = token;
    batch.masked_weights[first + i] = 1;
    token = masked_token(token, facts, what, i);
  }
}

// So that a mean over all places is one over the tokens that are masked.
void normalise_weights(BertBatch& batch) {
  double counted = std::accumulate(batch.masked_weights.begin(), batch.masked_weights.end(), 0.0);
  auto weight = static_cast<float>(static_cast<double>(batch.masked_weights.size()) / counted);
  for (float& each : batch.masked_weights) each *= weight;
}

}  // namespace

// A Feistel network permutes the numbers of 2·half bits; those beyond the count are sent on until
// one is within, which keeps it a permutation and takes fewer than four turns on the mean.
int64_t shuffled_place(int64_t i, int64_t count, uint64_t seed, uint64_t pass) {
  constexpr uint64_t kRounds = 4;
  int bits = std::max(2, static_cast<int>(std::bit_width(static_cast<uint64_t>(count - 1))));
  int half = (bits + 1) / 2;
  uint64_t mask = (uint64_t{1} << half) - 1;
  RandomStream random(seed, "bert order", pass);
  auto place = static_cast<uint64_t>(i);
  do {
    uint64_t left = place >> half, right = place & mask;
    for (uint64_t round = 0; round < kRounds; ++round) {
      uint64_t mixed = random.block(round << 32 | right).word[0] & mask;
      uint64_t next = left ^ mixed;
      left = right;
      right = next;
    }
    place = left << half | right;
  } while (place >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(place);
}

BertBatch training_batch(const BertRange& range, int64_t size, uint64_t seed, uint64_t index,
                         const BertMasking& masking) {
  BertBatch batch = empty_batch(size, range, masking);
  auto count = static_cast<uint64_t>(range.count);
  for (int64_t row = 0; row < size; ++row) {
    uint64_t draw = index * static_cast<uint64_t>(size) + static_cast<uint64_t>(row);
    int64_t place =
        shuffled_place(static_cast<int64_t>(draw % count), range.count, seed, draw / count);
    fill(batch, row, range.instances.at(range.first + place), range.instances.facts(), masking,
         seed, draw);
  }
  normalise_weights(batch);
  return batch;
}

BertBatch evaluation_batch(const BertRange& range, int64_t size, int64_t first,
                           const BertMasking& masking) {
  constexpr uint64_t kSeed = 0;  // every run is judged on the same masks
  BertBatch batch = empty_batch(size, range, masking);
  for (int64_t row = 0; row < size; ++row) {
    bool is_there = first + row < range.count;
    int64_t record = range.first + (is_there ? first + row : 0);
    fill(batch, row, range.instances.at(record), range.instances.facts(), masking, kSeed,
         static_cast<uint64_t>(record));
    if (is_there) continue;
    auto begin = batch.masked_weights.begin() + row * masking.predictions;
    std::fill(begin, begin + masking.predictions, 0.0f);
  }
  normalise_weights(batch);
  return batch;
}

}  // namespace sigma1
