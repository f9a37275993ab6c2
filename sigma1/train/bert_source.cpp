#include "sigma1/train/bert_source.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/data/bert_batch.h"
#include "sigma1/train/batch_source.h"
#include "sigma1/train/squad_source.h"

namespace sigma1 {
namespace {

BertMasking masking_of(const TrainConfig& config) {
  return {.predictions = config.size.predictions};
}

ModelBatch named(BertBatch batch) {
  ModelBatch result;
  result.indices = {{"tokens", std::move(batch.tokens)},
                    {"segments", std::move(batch.segments)},
                    {"masked_positions", std::move(batch.masked_positions)},
                    {"masked_labels", std::move(batch.masked_labels)},
                    {"next_sentence", std::move(batch.next_sentence)}};
  result.numbers = {{"padding", std::move(batch.padding)},
                    {"masked_weights", std::move(batch.masked_weights)}};
  return result;
}

// What a model made of sentences and masked tokens, summed over batches.
struct Score {
  double loss = 0, right = 0, count = 0;

  Score() = default;
  // Of a row of scores, and which of them is right.
  Score(std::span<const float> scores, int32_t label) : count(1) {
    auto best = std::ranges::max_element(scores);
    double sum = 0;
    for (float score : scores) sum += static_cast<double>(std::exp(score - *best));
    loss = std::log(sum) + static_cast<double>(*best) -
           static_cast<double>(scores[static_cast<size_t>(label)]);
    right = best - scores.begin() == label ? 1 : 0;
  }

  void add(const Score& other) {
    loss += other.loss;
    right += other.right;
    count += other.count;
  }
};

class BertSource : public BatchSource {
 public:
  BertSource(std::shared_ptr<const BertInstances> train, std::shared_ptr<const BertInstances> valid)
      : train_(std::move(train)), valid_(std::move(valid)) {
    int64_t all = train_->count();
    training_ = valid_ ? all : all - all / 10;
    valid_count_ = valid_ ? valid_->count() : all - training_;
  }

  ModelBatch training(const TrainConfig& config, int64_t index) const override {
    return named(training_batch({*train_, 0, training_}, config.size.batch,
                                static_cast<uint64_t>(config.seed), static_cast<uint64_t>(index),
                                masking_of(config)));
  }

  Evaluation evaluate(const TrainConfig& config, const Run& run,
                      const Progress& progress) const override {
    int64_t count = valid_count_;
    if (config.evaluate_limit > 0) {
      count = std::clamp<int64_t>(config.evaluate_limit / config.size.time, 1, count);
    }
    BertRange range{valid_ ? *valid_ : *train_, valid_ ? 0 : training_, count};
    Score masked, sentences;
    for (int64_t first = 0; first < count; first += config.size.batch) {
      if (progress) progress(first, count);
      BertBatch batch = evaluation_batch(range, config.size.batch, first, masking_of(config));
      const Program& program = run(named(batch));
      add_rows(masked, program, "mlm_scores", batch.masked_labels,
               [&](size_t row) { return batch.masked_weights[row] > 0; });
      auto there = static_cast<size_t>(count - first);
      add_rows(sentences, program, "nsp_scores", batch.next_sentence,
               [&](size_t row) { return row < there; });
    }
    return evaluation_of(masked, sentences);
  }

 private:
  template <class Counts>
  static void add_rows(Score& score, const Program& program, const std::string& output,
                       std::span<const int32_t> labels, const Counts& counts) {
    std::vector<float> scores = read_floats(program.output(output));
    size_t width = scores.size() / labels.size();
    std::vector<Score> rows(labels.size());
    parallel_for(labels.size(), 16, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        if (counts(row))
          rows[row] = Score(std::span(scores).subspan(row * width, width), labels[row]);
      }
    });
    for (const Score& row : rows) score.add(row);
  }

  static Evaluation evaluation_of(const Score& masked, const Score& sentences) {
    Evaluation result;
    double mlm = masked.loss / masked.count, nsp = sentences.loss / sentences.count;
    result.loss = mlm + nsp;
    result.bits_per_character = result.loss / std::numbers::ln2;
    result.characters = static_cast<int64_t>(masked.count);
    result.parts = {{"mlm_loss", mlm},
                    {"mlm_accuracy", masked.right / masked.count},
                    {"nsp_loss", nsp},
                    {"nsp_accuracy", sentences.right / sentences.count}};
    return result;
  }

  std::shared_ptr<const BertInstances> train_, valid_;
  int64_t training_ = 0, valid_count_ = 0;  // pairs of train_ that are trained on, of validation
};

std::shared_ptr<const BertInstances> load_pairs(const std::string& path, int64_t time) {
  auto pairs = std::make_shared<BertInstances>(path);
  if (static_cast<int64_t>(pairs->facts().time) != time) {
    throw Error("time: expected {}, as the pairs in {} have, got {}", pairs->facts().time, path,
                time);
  }
  return pairs;
}

}  // namespace

Corpus load_bert_corpus(const TrainConfig& config) {
  if (config.train_text.empty()) {
    throw Error("train: expected a file of `sigma1 bert prepare` to train on");
  }
  std::shared_ptr<const BertInstances> train = load_pairs(config.train_text, config.size.time);
  std::shared_ptr<const BertInstances> valid;
  if (!config.valid_text.empty()) {
    valid = load_pairs(config.valid_text, config.size.time);
    bool alike = valid->facts().vocabulary == train->facts().vocabulary &&
                 valid->facts().special == train->facts().special;
    if (!alike) {
      throw Error("valid: expected the vocabulary of {}, got another in {}", config.train_text,
                  config.valid_text);
    }
  } else if (train->count() < 10) {
    throw Error("train: expected at least 10 pairs, to keep some for validation, got {} in {}",
                train->count(), config.train_text);
  }
  Corpus corpus{Vocabulary::of_ids(train->facts().vocabulary), {}, {}};
  corpus.source = std::make_shared<BertSource>(train, valid);
  return corpus;
}

Corpus load_corpus(const TrainConfig& config, const std::string& cache_folder) {
  if (config.reads_pairs()) return load_bert_corpus(config);
  if (config.reads_questions()) return load_squad_corpus(config);
  return load_corpus(config.train_text, config.valid_text, cache_folder, config.tokens);
}

}  // namespace sigma1
