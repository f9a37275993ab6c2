#include "tests/train/tiny_run.h"

namespace sigma1 {

std::string tiny_text(size_t characters) {
  const char* words[] = {"the",   "a",    "cat",   "dog",   "house", "of",   "and",
                         "sat",   "on",   "in",    "under", "ran",   "very", "quickly",
                         "small", "blue", "jumps", "with",  "he",    "saw"};
  std::string text;
  uint32_t state = 1;
  for (int word = 1; text.size() < characters; ++word) {
    state = state * 1664525 + 1013904223;
    text += words[(state >> 16) % std::size(words)];
    text += word % 8 == 0 ? ".\n" : " ";
  }
  text.resize(characters);
  return text;
}

Corpus tiny_corpus(const std::string& text) {
  size_t cut = text.size() * 9 / 10;
  Vocabulary vocabulary = Vocabulary::of_texts({text});
  return {vocabulary, vocabulary.encode(text.substr(0, cut)), vocabulary.encode(text.substr(cut))};
}

TrainConfig tiny_config(Settings settings) {
  TrainConfig config;
  auto set_all = [&](Settings given) {
    for (const auto& [key, value] : given) config.set(key, value);
  };
  for (const auto& [key, value] : settings) {
    if (std::string_view(key) == "model") config.set(key, value);
  }
  set_all({{"depth", "1"},
           {"width", "16"},
           {"ffn", "32"},
           {"heads", "2"},
           {"batch", "2"},
           {"time", "16"},
           {"masked", "4"},
           {"method", "none"},
           {"precision", "fp32"},
           {"schedule", "constant"},
           {"steps", "50"}});
  for (const auto& [key, value] : settings) {
    if (std::string_view(key) != "model") config.set(key, value);
  }
  return config;
}

Batch batch_of(const TrainConfig& config, const Corpus& corpus, uint64_t index) {
  return training_batch(corpus.train, config.size.batch, static_cast<uint64_t>(config.seed), index,
                        {config.size.time, config.context});
}

Bindings bindings_of(const Batch& batch) {
  Shape shape{batch.sequences, batch.length};
  return {{"tokens", Tensor(shape, {batch.tokens.begin(), batch.tokens.end()})},
          {"mask", Tensor(shape, {batch.mask.begin(), batch.mask.end()})}};
}

std::vector<double> losses_of(Session& session, int steps) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) losses.push_back(session.train_step().loss);
  return losses;
}

std::vector<std::string> parameters_of(const Session& session) {
  std::vector<std::string> names;
  const Graph& graph = session.gradients().graph();
  for (Value parameter : graph.parameters()) names.push_back(graph.node(parameter.node).name);
  return names;
}

std::map<std::string, std::vector<float>> tensors_of(const Session& session) {
  std::map<std::string, std::vector<float>> tensors;
  for (const std::string& name : parameters_of(session)) {
    for (const std::string& each :
         {name, moment_name(name), second_moment_name(name), master_name(name)}) {
      if (session.store().contains(each)) tensors[each] = session.store().read(each);
    }
  }
  return tensors;
}

}  // namespace sigma1
