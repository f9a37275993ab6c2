#include "sigma1/train/random_inputs.h"

#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"
#include "sigma1/train/batch_source.h"

namespace sigma1 {
namespace {

// From the model's inputs, so that a new one is not forgotten.
class RandomInputs : public BatchSource {
 public:
  RandomInputs(const TrainConfig& config, int64_t vocabulary)
      : below_{{"tokens", vocabulary},
               {"masked_labels", vocabulary},
               {"masked_positions", config.size.time},
               {"start", config.size.time},
               {"end", config.size.time},
               {"segments", 2},
               {"next_sentence", 2}} {
    build_model(graph_, config.model, config.size);
  }

  ModelBatch training(const TrainConfig& config, int64_t index) const override {
    ModelBatch batch;
    for (const Node& node : graph_.nodes()) {
      if (node.op != &input_op) continue;
      auto count = static_cast<size_t>(node.outputs.front().count());
      if (node.outputs.front().kind == Kind::index) {
        RandomStream random(static_cast<uint64_t>(config.seed), node.name,
                            static_cast<uint64_t>(index));
        std::vector<uint16_t> ids = random_tokens(below_.at(node.name), count, random);
        batch.indices.push_back({node.name, {ids.begin(), ids.end()}});
      } else {
        batch.numbers.push_back({node.name, std::vector<float>(count, 1)});
      }
    }
    return batch;
  }

  Evaluation evaluate(const TrainConfig&, const Run&, const Progress&) const override {
    throw Bug("noise has nothing to validate by");
  }

 private:
  std::map<std::string, int64_t> below_;
  Graph graph_;
};

}  // namespace

Corpus random_corpus(const TrainConfig& config, int64_t vocabulary) {
  constexpr size_t kTokens = 1 << 16;
  if (!config.reads_pairs() && !config.reads_questions())
    return random_corpus(vocabulary, kTokens, 0);
  Corpus corpus{Vocabulary::of_ids(vocabulary), {}, {}};
  corpus.source = std::make_shared<RandomInputs>(config, vocabulary);
  return corpus;
}

}  // namespace sigma1
