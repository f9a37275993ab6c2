#include "sigma1/train/trainer.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "sigma1/backend/cpu/gemm.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/base/machine.h"
#include "sigma1/base/parallel.h"
#include "sigma1/numerics/convert.h"
#include "sigma1/runtime/gemm_floor.h"
#include "sigma1/train/bert_source.h"
#include "sigma1/train/event_file.h"
#include "sigma1/train/metrics.h"
#include "sigma1/train/progress.h"
#include "sigma1/train/run_record.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

fs::path config_path(const fs::path& folder) { return folder / "config.json"; }
fs::path checkpoint_folder(const fs::path& folder) { return folder / "checkpoints"; }

void check_folder(const RunOptions& options) {
  bool there = holds_run(options.folder);
  if (there && !options.resume) {
    throw Error("{}: holds a run already; --resume goes on with it, or choose another folder",
                options.folder.string());
  }
  if (!there && options.resume) {
    throw Error("{}: expected a run to resume, and there is none", options.folder.string());
  }
}

void make_folder(const RunOptions& options) {
  std::error_code failure;
  fs::create_directories(options.folder, failure);
  if (failure) throw Error("{}: cannot be made: {}", options.folder.string(), failure.message());
}

std::span<const uint16_t> validation_text(const TrainConfig& config, const Corpus& corpus) {
  std::span<const uint16_t> text = corpus.valid;
  if (config.evaluate_limit > 0) {
    text = text.first(std::min(text.size(), static_cast<size_t>(config.evaluate_limit)));
  }
  return text;
}

std::string machine_json(const Device& device) {
  return nlohmann::ordered_json{{"version", version()},
                                {"device", device.name()},
                                {"processor", processor_name()},
                                {"threads", thread_count()},
                                {"instruction_set", to_string(instruction_set())},
                                {"gemm", cpu::gemm_library()}}
      .dump();
}

std::string probe_of(const TrainConfig& config, const RunOptions& options) {
  return config.probe.empty() ? options.default_probe : config.probe;
}

// A name that no tensor has should not be found out after hours, by a file without any.
void check_probe(const Session& session, const std::string& filter) {
  if (ProbeFilter(filter).wants_nothing()) return;
  ScaleProbe(session.config(), session.joins(), {.filter = filter});
}

std::string memory_text(const Session& session) {
  Session::Memory memory = session.memory();
  auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  return fmt::format(
      "{}: {:.1f} MB: parameters, gradients and states {:.1f} MB, activations {:.1f} MB, "
      "workspace {:.1f} MB",
      session.store().device().name(),
      megabytes(memory.kept + memory.activations + memory.workspace), megabytes(memory.kept),
      megabytes(memory.activations), megabytes(memory.workspace));
}

class Run {
 public:
  Run(Session& session, const Corpus& corpus, const RunOptions& options)
      : session_(session),
        config_(session.config()),
        options_(options),
        corpus_(corpus),
        metrics_(options.folder / "metrics.jsonl", session.step() == 0 ? -1 : session.step()),
        events_(options.folder / "events", session.step() == 0 ? -1 : session.step()),
        record_(options.folder, session, corpus, probe_of(config_, options),
                [this](const std::string& text) { warn(text); }),
        started_at_(steady_seconds()),
        finished_at_(started_at_),
        first_step_(session.step()) {
    if (!options.terminal || !is_terminal(options.terminal)) return;
    progress_.emplace(options.terminal);
    bool on_cpu = options.device == &cpu_device();
    if (on_cpu) {
      floor_ = static_cast<double>(config_.accumulate) * gemm_floor(session.gradients());
    }
  }

  RunResult run() {
    RunResult result;
    if (session_.step() == 0) record_.look(events_);
    bool stopped = false;
    while (session_.step() < config_.steps && !stopped) {
      session_.start_step();
      stopped = options_.stop && options_.stop();
      bool pauses = stopped || evaluates() || saves() || record_.is_due();
      // What is done between steps has to see the last one's results.
      while (session_.ahead() >= (pauses ? 1 : session_.most_ahead())) finish_step();
      if (!pauses) continue;
      record_.look(events_);
      if (evaluates()) result.valid = evaluate();
      if (stopped || saves()) {
        events_.flush();  // a resumed run does not write these steps again
        session_.save(checkpoint_folder(options_.folder));
      }
      finished_at_ = steady_seconds();
    }
    if (progress_) progress_->finish();
    result.finished = session_.step() == config_.steps;
    bool was_finished = result.finished && result.valid.characters == 0;
    if (was_finished) result.valid = validate();  // written long ago
    result.steps = session_.step();
    result.skipped = session_.loss_scaler().skipped;
    result.seconds = steady_seconds() - started_at_;
    return result;
  }

 private:
  bool is_due(int64_t every) const {
    return session_.step() % every == 0 || session_.step() == config_.steps;
  }
  bool evaluates() const { return is_due(config_.interval(config_.evaluate_every)); }
  bool saves() const {
    return is_due(config_.checkpoint_every > 0 ? config_.checkpoint_every
                                               : config_.interval(config_.evaluate_every));
  }

  // The oldest that is under way.
  void finish_step() {
    int64_t step = session_.step() - session_.ahead() + 1;
    StepResult result = session_.finish_step();
    double now = steady_seconds(), seconds = std::max(now - finished_at_, 1e-9);
    finished_at_ = now;
    options_.stepped(step);
    auto tokens = static_cast<double>(config_.size.batch * config_.size.time * config_.accumulate);
    if (result.skipped) {
      record_.skipped_step(
          step, fmt::format("skipped, the loss scale goes to {}", session_.loss_scaler().scale));
    }
    if (step % config_.log_every == 0 || step == config_.steps) {
      metrics_.write(step, std::vector<Metric>{{"loss", result.loss},
                                               {"lr", result.rate},
                                               {"tokens_per_s", tokens / seconds}});
      events_.scalar("loss", step, result.loss);
      events_.scalar("lr", step, result.rate);
      events_.scalar("tokens_per_s", step, tokens / seconds);
    }
    show(step, result.loss, tokens, seconds);
  }

  void warn(const std::string& text) {
    if (progress_) progress_->finish();
    options_.warn(text);
  }

  void show(int64_t step, double loss, double tokens, double seconds) {
    if (!progress_) return;
    auto done = static_cast<double>(step - first_step_);
    double per_step = (steady_seconds() - started_at_) / done;
    progress_->update({.step = step,
                       .total = config_.steps,
                       .loss = loss,
                       .bits_per_character = loss / std::numbers::ln2,
                       .tokens_per_second = tokens / seconds,
                       .seconds_left = per_step * static_cast<double>(config_.steps - step),
                       .share_of_floor = floor_ / seconds});
  }

  Evaluation validate() {
    if (corpus_.source) return session_.evaluate(*corpus_.source);
    return session_.evaluate(validation_text(config_, corpus_));
  }

  Evaluation evaluate() {
    Evaluation result = validate();
    int64_t step = session_.step();
    std::vector<Metric> metrics{{"valid_loss", result.loss},
                                {"valid_bpc", result.bits_per_character}};
    for (const auto& [name, value] : result.parts) metrics.push_back({"valid_" + name, value});
    metrics_.write(step, metrics);
    for (const Metric& metric : metrics) events_.scalar(metric.name, step, metric.value);
    events_.flush();
    return result;
  }

  Session& session_;
  const TrainConfig& config_;
  const RunOptions& options_;
  const Corpus& corpus_;
  MetricsFile metrics_;
  EventFile events_;
  RunRecord record_;
  std::optional<ProgressLine> progress_;
  double started_at_, finished_at_;  // the run, and its last step or pause
  int64_t first_step_;
  double floor_ = 0;  // seconds of a step's matrix products alone
};

}  // namespace

bool holds_run(const fs::path& folder) { return fs::exists(config_path(folder)); }

TrainConfig run_config(const fs::path& folder) {
  return TrainConfig::from_file(config_path(folder).string());
}

RunResult train(const TrainConfig& config, const RunOptions& options) {
  config.check();
  check_folder(options);
  return train(config, options, load_corpus(config, options.cache_folder));
}

RunResult train(const TrainConfig& config, const RunOptions& options, const Corpus& corpus) {
  config.check();
  check_folder(options);
  if (!corpus.source && corpus.valid.empty())
    throw Error("valid: expected a text, and the training text is too short to take it from");
  std::optional<Session> session;
  if (options.resume && has_checkpoint(checkpoint_folder(options.folder))) {
    Checkpoint checkpoint = latest_checkpoint(checkpoint_folder(options.folder));
    for (const std::string& warning : checkpoint.warnings) options.warn(warning);
    session.emplace(checkpoint, &corpus, *options.device);
  } else {
    session.emplace(config, corpus, *options.device);
    check_probe(*session, probe_of(config, options));
    // Only now, when nothing can be wrong with the settings and texts any more.
    make_folder(options);
    write_file(config_path(options.folder).string(), config.to_json() + "\n");
  }
  write_file((options.folder / "machine.json").string(), machine_json(*options.device) + "\n");
  options.tell(memory_text(*session));
  if (std::string text = to_string(session->dispatched()); !text.empty()) options.tell(text);
  return Run(*session, corpus, options).run();
}

}  // namespace sigma1
