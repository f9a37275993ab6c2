#include "tools/sigma1/scale_source.h"

#include <algorithm>
#include <filesystem>

#include "sigma1/base/error.h"
#include "sigma1/train/bert_source.h"
#include "sigma1/train/progress.h"
#include "tools/sigma1/model_source.h"

namespace sigma1 {
namespace {

bool is_model(const std::string& name) {
  for (const Model& model : model_registry()) {
    if (model.name == name) return true;
  }
  return false;
}

// A trained model can be looked at on another text and in other formats; the rest made it what it
// is.
void expect_changeable(const std::string& key, const std::string& checkpoint) {
  constexpr std::string_view kChangeable[] = {
      "train",   "seed",      "precision", "activations",
      "weights", "gradients", "matmul",    "matmul-overrides"};
  if (std::ranges::find(kChangeable, key) != std::end(kChangeable)) return;
  throw Error("{}: {} has its own; only --text, --seed and formats can be others", key, checkpoint);
}

constexpr size_t kRandomTokens = 1 << 18;

}  // namespace

void add_text_option(CLI::App& command, SettingOptions& settings) {
  command.add_option_function<std::string>(
      "--text",
      [&settings](const std::string& path) { settings.changes.push_back("train=" + path); },
      "Text to read, or what BERT reads; without one, random characters, but for BERT");
}

ScaleSource::ScaleSource(const std::string& name, const SettingOptions& settings,
                         const Device& device)
    : device_(device), method_given_(settings.given("method")) {
  if (is_model(name)) {
    SettingOptions with_model = settings;
    with_model.changes.insert(with_model.changes.begin(), "model=" + name);
    config_ = read_settings(with_model);
  } else if (std::filesystem::exists(name)) {
    checkpoint_.emplace(open_model(name));
    config_ = Session(*checkpoint_, nullptr).config();
    if (!settings.config.empty()) throw Error("--config: {} has its own settings", name);
    for (const std::string& key : apply_changes(settings, config_)) expect_changeable(key, name);
  } else {
    if (name.find_first_of("./") != std::string::npos) {
      throw Error(
          "{}: expected a model's name, a checkpoint or a run's folder, and it is not there", name);
    }
    find_model(name);  // throws, with the models and the nearest
  }
  if (config_.reads_text()) {
    config_.check();
    corpus_ = load_text(!settings.given("train"));
  }
}

Corpus ScaleSource::load_text(bool is_runs_own) const {
  if (config_.reads_pairs() || config_.reads_questions()) {
    if (config_.train_text.empty()) {
      throw Error("--text: expected {}, which model {} reads, got none",
                  config_.reads_pairs() ? "a file of `sigma1 bert prepare`" : "SQuAD's JSON",
                  config_.model);
    }
    return load_corpus(config_, "");
  }
  if (config_.train_text.empty()) {
    return random_corpus(config_.size.vocabulary, kRandomTokens,
                         static_cast<uint64_t>(config_.seed));
  }
  // As the run read it, whose end may be for validation.
  if (!checkpoint_ || is_runs_own)
    return load_corpus(config_.train_text, config_.valid_text, "", config_.tokens);
  Corpus corpus{Session(*checkpoint_, nullptr).vocabulary(), {}, {}};
  corpus.train = load_tokens(config_.train_text, corpus.vocabulary);
  return corpus;
}

void ScaleSource::tell_text() const {
  if (corpus_.train.empty() || !config_.train_text.empty()) return;
  fmt::print(stderr, "sigma1: no --text: random characters stood in for one\n");
}

TrainConfig ScaleSource::config(const std::string& method) const {
  TrainConfig config = config_;
  config.method = method;
  if (config.reads_text()) {
    config.size.vocabulary = static_cast<int64_t>(corpus_.vocabulary.size());
  }
  return config;
}

std::vector<std::string> ScaleSource::methods() const {
  if (checkpoint_ || method_given_) return {config_.method};
  return {"none", "loss-scale=2048", "unit"};
}

MeasuredMethod ScaleSource::measure(const std::string& method, const ProbeOptions& asked,
                                    int64_t train_steps) const {
  MeasuredMethod scales;
  ProbeOptions options = asked;
  options.device = &device_;
  scales.method = method;
  if (checkpoint_) {
    scales.first = fmt::format("step {}", checkpoint_->step);
    scales.last = fmt::format("step {}", checkpoint_->step + train_steps);
  }
  TrainConfig judged = config(method);
  if (!judged.reads_text()) {
    if (train_steps > 0) {
      throw Error("--train: expected a model that reads text, char_lm, gpt or bert, got {}",
                  judged.model);
    }
    scales.start = layer_scales(judged, options);
    return scales;
  }
  if (train_steps > 0) judged.steps = train_steps;
  std::optional<Session> session;
  if (checkpoint_) {
    session.emplace(*checkpoint_, train_steps > 0 ? &corpus_ : nullptr, device_);
  } else {
    session.emplace(judged, corpus_, device_);
  }
  auto look = [&] {
    return session_scales(*session, judged, step_batch(judged, corpus_, session->step()), options);
  };
  scales.start = look();
  if (train_steps == 0) return scales;
  ProgressLine progress(stderr);
  for (int64_t i = 0; i < train_steps; ++i) {
    session->train_step();
    progress.update(method + ": steps", i + 1, train_steps);
  }
  progress.finish();
  scales.end = look();
  return scales;
}

}  // namespace sigma1
