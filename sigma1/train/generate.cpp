#include "sigma1/train/generate.h"

#include <algorithm>
#include <cmath>

#include "sigma1/backend/cpu/kernel.h"
#include "sigma1/base/error.h"
#include "sigma1/base/rng.h"

namespace sigma1 {
namespace {

// A model that reads one sequence and gives its scores.
class Reader {
 public:
  explicit Reader(const Session& session)
      : time_(session.config().size.time), store_(session.store().device()) {
    TrainConfig config = session.config();
    config.size.batch = 1;
    StepGraph graph = evaluation_graph(config, session.alignment(), true);
    program_ = std::make_unique<Program>(graph.graph, store_, graph.stored);
    session.copy_parameters(*graph.graph, store_);
    store_.fill("mask", 1);
  }

  // The scores of what follows the text.
  std::vector<float> scores(const std::vector<uint16_t>& text) {
    int64_t seen = std::min(static_cast<int64_t>(text.size()), time_ - 1);
    std::vector<int32_t> tokens(text.end() - seen, text.end());
    tokens.resize(static_cast<size_t>(time_));
    store_.write_indices("tokens", tokens);
    program_->run(0);
    HostView host(program_->output("scores"));
    const Buffer& all = host.buffer();
    int64_t vocabulary = all.shape.back();
    std::vector<float> row(static_cast<size_t>(vocabulary));
    const float* found = cpu::load(all, seen * vocabulary, vocabulary, row.data());
    if (found != row.data()) std::copy_n(found, row.size(), row.data());
    return row;
  }

 private:
  int64_t time_;
  Store store_;
  std::unique_ptr<Program> program_;
};

size_t sample(const std::vector<float>& scores, double temperature, double uniform) {
  auto largest = std::max_element(scores.begin(), scores.end());
  if (temperature == 0) return static_cast<size_t>(largest - scores.begin());
  std::vector<double> weights;
  double sum = 0;
  for (float score : scores) {
    weights.push_back(std::exp((static_cast<double>(score) - *largest) / temperature));
    sum += weights.back();
  }
  double left = uniform * sum;
  for (size_t i = 0; i < weights.size(); ++i) {
    left -= weights[i];
    if (left < 0) return i;
  }
  return weights.size() - 1;
}

}  // namespace

void generate(const Session& session, const GenerateOptions& options,
              const std::function<void(std::string_view)>& show) {
  if (session.config().reads_pairs() || session.config().reads_questions()) {
    throw Error("expected a model that predicts what follows, char_lm or gpt, got {}",
                session.config().model);
  }
  if (!(options.temperature >= 0) || std::isinf(options.temperature)) {
    throw Error("temperature: expected 0 or more, got {}", options.temperature);
  }
  const Vocabulary& vocabulary = session.vocabulary();
  std::vector<uint16_t> text = vocabulary.encode(options.prompt);
  Reader reader(session);
  RandomStream random(options.seed, "generate");
  show(vocabulary.decode(text));
  for (int64_t i = 0; i < options.length; ++i) {
    std::vector<float> scores = reader.scores(text);
    scores.resize(vocabulary.known());
    size_t next = sample(scores, options.temperature, random.uniform(static_cast<uint64_t>(i)));
    text.push_back(static_cast<uint16_t>(next));
    show(vocabulary.decode(std::span(text).last(1)));
  }
}

}  // namespace sigma1
