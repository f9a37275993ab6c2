#include "sigma1/train/squad_source.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sigma1/base/error.h"
#include "sigma1/data/bert_batch.h"
#include "sigma1/data/squad_batch.h"
#include "sigma1/data/squad_metrics.h"

namespace sigma1 {
namespace {

ModelBatch batch_of(const SquadFeatures& features, std::span<const size_t> windows,
                    const TrainConfig& config) {
  SquadBatch batch = squad_batch(features, windows, config.size.time);
  ModelBatch named;
  named.indices = {{"tokens", std::move(batch.tokens)},
                   {"segments", std::move(batch.segments)},
                   {"start", std::move(batch.start)},
                   {"end", std::move(batch.end)}};
  named.numbers = {{"padding", std::move(batch.padding)}};
  return named;
}

double nats(std::span<const float> scores, int64_t label) {
  double most = *std::ranges::max_element(scores), sum = 0;
  for (float score : scores) sum += std::exp(static_cast<double>(score) - most);
  return std::log(sum) + most - static_cast<double>(scores[static_cast<size_t>(label)]);
}

class SquadSource : public BatchSource {
 public:
  SquadSource(SquadFeatures train, SquadData valid, SquadFeatures valid_features)
      : train_(std::move(train)),
        valid_(std::move(valid)),
        valid_features_(std::move(valid_features)) {
    for (size_t i = 0; i < train_.windows.size(); ++i) {
      const SquadAsked& asked = train_.questions[train_.windows[i].question];
      if (asked.state != SquadAnswerState::unknown) usable_.push_back(i);
    }
    if (usable_.empty())
      throw Error("train: expected questions whose answers stand in their context, got none");
  }

  ModelBatch training(const TrainConfig& config, int64_t index) const override {
    std::vector<size_t> windows;
    auto count = static_cast<int64_t>(usable_.size());
    for (int64_t i = 0; i < config.size.batch; ++i) {
      int64_t place = index * config.size.batch + i;
      int64_t chosen = shuffled_place(place % count, count, static_cast<uint64_t>(config.seed),
                                      static_cast<uint64_t>(place / count));
      windows.push_back(usable_[static_cast<size_t>(chosen)]);
    }
    return batch_of(train_, windows, config);
  }

  Evaluation evaluate(const TrainConfig& config, const Run& run,
                      const Progress& progress) const override {
    SquadAnswers answers = answer_squad(valid_features_, config, run, progress);
    ByQuestion<std::string> texts("the model's answers");
    for (const SquadPrediction& each : answers.predictions) texts.set(each.id, each.text);
    SquadMetrics metrics = valid_.version == SquadVersion::v1_1 ? squad_metrics_v1(valid_, texts)
                                                                : squad_metrics_v2(valid_, texts);
    Evaluation result;
    result.loss = answers.loss;
    result.bits_per_character = answers.loss / std::numbers::ln2;
    result.characters = static_cast<int64_t>(answers.predictions.size());
    result.counted = "questions";
    for (const auto& [name, number] : metrics.values) {
      if (name == "exact_match" || name == "exact" || name == "f1")
        result.parts.emplace_back(name, number.value);
    }
    return result;
  }

  SquadCounts counts() const {
    SquadCounts counts{static_cast<int64_t>(usable_.size()),
                       static_cast<int64_t>(train_.questions.size()), 0};
    for (const SquadAsked& asked : train_.questions)
      counts.left_out += asked.state == SquadAnswerState::unknown ? 1 : 0;
    return counts;
  }

 private:
  SquadFeatures train_;
  SquadData valid_;
  SquadFeatures valid_features_;
  std::vector<size_t> usable_;  // windows of train_
};

SquadData take_last_articles(SquadData& data) {
  size_t count = data.articles.size(), kept = count - std::max<size_t>(count / 10, 1);
  if (count < 2)
    throw Error("valid: expected SQuAD's JSON, or two articles in {} to keep one of, got {}",
                data.path, count);
  SquadData last{data.path, data.version, {}};
  auto first = data.articles.begin() + static_cast<ptrdiff_t>(kept);
  last.articles.assign(std::make_move_iterator(first),
                       std::make_move_iterator(data.articles.end()));
  data.articles.resize(kept);
  return last;
}

// Paragraphs until there are so many questions; 0: all.
void keep_first(SquadData& data, int64_t questions) {
  if (questions == 0) return;
  for (SquadArticle& article : data.articles) {
    for (SquadParagraph& paragraph : article.paragraphs) {
      auto here = std::min(questions, static_cast<int64_t>(paragraph.questions.size()));
      paragraph.questions.resize(static_cast<size_t>(here));
      questions -= here;
    }
  }
}

}  // namespace

WordPiece squad_pieces(const TrainConfig& config) {
  if (config.vocab_file.empty()) throw Error("vocab-file: expected a vocab.txt");
  return WordPiece::load(config.vocab_file,
                         config.cased ? LetterCase::as_written : LetterCase::lower);
}

SquadFeatureOptions squad_options(const TrainConfig& config) {
  return {.max_length = config.size.time, .stride = config.stride, .max_query = config.max_query};
}

SquadAnswers answer_squad(const SquadFeatures& features, const TrainConfig& config,
                          const BatchSource::Run& run, const BatchSource::Progress& progress,
                          const SquadPredictionOptions& options) {
  auto count = static_cast<int64_t>(features.windows.size());
  auto time = static_cast<size_t>(config.size.time);
  std::vector<float> starts, ends;
  SquadAnswers answers;
  for (int64_t first = 0; first < count; first += config.size.batch) {
    if (progress) progress(first, count);
    std::vector<size_t> windows;  // beyond the last: the last again
    for (int64_t i = 0; i < config.size.batch; ++i)
      windows.push_back(static_cast<size_t>(std::min(first + i, count - 1)));
    const Program& program = run(batch_of(features, windows, config));
    auto there = static_cast<size_t>(std::min(config.size.batch, count - first)) * time;
    std::vector<float> start = read_floats(program.output("start_scores"));
    std::vector<float> end = read_floats(program.output("end_scores"));
    starts.insert(starts.end(), start.begin(), start.begin() + static_cast<ptrdiff_t>(there));
    ends.insert(ends.end(), end.begin(), end.begin() + static_cast<ptrdiff_t>(there));
  }
  std::vector<SpanScores> scores;
  for (size_t i = 0; i < features.windows.size(); ++i) {
    scores.push_back(
        {std::span(starts).subspan(i * time, time), std::span(ends).subspan(i * time, time)});
    const SquadWindow& window = features.windows[i];
    answers.loss +=
        (nats(scores[i].start, window.start_position) + nats(scores[i].end, window.end_position)) /
        (2 * static_cast<double>(count));
  }
  answers.predictions = predict_squad(features, scores, options);
  return answers;
}

Corpus load_squad_corpus(const TrainConfig& config) {
  if (config.train_text.empty()) throw Error("train: expected SQuAD's JSON to train on");
  WordPiece pieces = squad_pieces(config);
  SquadData train = load_squad_texts(config.train_text);
  SquadData valid =
      config.valid_text.empty() ? take_last_articles(train) : load_squad_texts(config.valid_text);
  if (valid.version != train.version)
    throw Error("valid: expected the version of {}, got another in {}", train.path, valid.path);
  // Before hours of training, not after them.
  if (valid.version == SquadVersion::v1_1) expect_answers_of_v1(valid);
  keep_first(valid, config.evaluate_limit == 0
                        ? 0
                        : std::max<int64_t>(config.evaluate_limit / config.size.time, 1));
  SquadFeatures of_train = make_squad_features(train, pieces, squad_options(config));
  SquadFeatures of_valid = make_squad_features(valid, pieces, squad_options(config));
  if (of_valid.questions.empty()) throw Error("valid: expected questions, got none");
  Corpus corpus{Vocabulary::of_ids(static_cast<int64_t>(pieces.size())), {}, {}};
  corpus.source =
      std::make_shared<SquadSource>(std::move(of_train), std::move(valid), std::move(of_valid));
  return corpus;
}

SquadCounts count_squad(const Corpus& corpus) {
  return dynamic_cast<const SquadSource&>(*corpus.source).counts();
}

}  // namespace sigma1
