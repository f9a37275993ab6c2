#include "sigma1/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "sigma1/backend/cpu/gemm.h"
#include "sigma1/base/communicator.h"
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
#include "sigma1/train/run_folder.h"
#include "sigma1/train/run_record.h"
#include "sigma1/train/same_everywhere.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

std::span<const uint16_t> validation_text(const TrainConfig& config, const Corpus& corpus) {
  std::span<const uint16_t> text = corpus.valid;
  if (config.evaluate_limit > 0) {
    text = text.first(std::min(text.size(), static_cast<size_t>(config.evaluate_limit)));
  }
  return text;
}

std::string machine_json(const Device& device) {
  return nlohmann::ordered_json{
      {"version", version()},          {"device", device.name()},
      {"processor", processor_name()}, {"ranks", ranks().size()},
      {"threads", thread_count()},     {"instruction_set", to_string(instruction_set())},
      {"gemm", cpu::gemm_library()}}
      .dump();
}

std::string probe_of(const TrainConfig& config, const RunOptions& options) {
  return config.probe.empty() ? options.default_probe : config.probe;
}

// A name that no tensor has should not be found out after hours, by a file without any.
void check_probe(const Session& session, const std::string& filter) {
  if (ProbeFilter(filter).wants_nothing()) return;
  ScaleProbe(session.config(), session.alignment(), {.filter = filter});
}

std::string memory_text(const Session& session) {
  Session::Memory memory = session.memory();
  auto megabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  double all = megabytes(memory.kept + memory.activations + memory.workspace);
  std::string text = fmt::format(
      "{}: {:.1f} MB: parameters, gradients and states {:.1f} MB, activations {:.1f} MB, "
      "workspace {:.1f} MB",
      session.store().device().name(), all, megabytes(memory.kept), megabytes(memory.activations),
      megabytes(memory.workspace));
  if (ranks().size() == 1) return text;
  std::vector<double> of_ranks = gather_numbers(ranks(), all);
  return fmt::format("{} ranks, the largest {:.1f} MB, the first on {}", ranks().size(),
                     std::ranges::max(of_ranks), text);
}

// What only the first rank writes.
struct RunFiles {
  MetricsFile metrics;
  EventFile events;
  RunRecord record;

  RunFiles(Session& session, const Corpus& corpus, const RunOptions& options,
           std::function<void(const std::string&)> tell)
      : metrics(options.folder / "metrics.jsonl", last_written(session)),
        events(options.folder / "events", last_written(session)),
        record(options.folder, session, corpus, probe_of(session.config(), options),
               std::move(tell)) {}

  // A run that begins leaves nothing of an earlier one.
  static int64_t last_written(const Session& session) {
    return session.step() == 0 ? -1 : session.step();
  }
};

void start_or_resume(std::optional<Session>& session, const TrainConfig& config,
                     const RunOptions& options, const Corpus& corpus) {
  fs::path checkpoints = checkpoint_folder(options.folder);
  if (!options.resume || !has_checkpoint(checkpoints)) {
    session.emplace(config, corpus, *options.device);
    return;
  }
  Checkpoint checkpoint = latest_checkpoint(checkpoints);
  for (const std::string& warning : checkpoint.warnings) options.warn(warning);
  session.emplace(checkpoint, &corpus, *options.device);
  for (const auto& [key, there, own] : differences(config, session->config())) {
    // Which products are left in other formats a run finds out, and keeps for itself.
    if (key == "matmul-overrides") continue;
    throw Error("{}: expected {}={}, as the run began, got {}; put it back, or begin another run",
                config_path(options.folder).string(), key, own, there);
  }
}

// `config` is what was asked for: how the session resolved it is in its checkpoints, but for the
// ranks, which a run that goes on without any has to know.
void prepare_folder(std::optional<FolderLock>& lock, const Session& session, TrainConfig config,
                    const RunOptions& options) {
  bool begins = session.step() == 0;
  if (begins) check_probe(session, probe_of(session.config(), options));
  make_folder(options.folder);
  lock.emplace(options.folder);
  check_folder(options.folder, options.resume);  // another may have begun since
  fs::path checkpoints = checkpoint_folder(options.folder);
  try {
    check_writable(checkpoints);
    check_room(checkpoints, begins ? checkpoints_at_once(session.config()) : 1,
               session.checkpoint_bytes());
  } catch (const Error&) {
    // What is empty was made just now; a folder that holds anything stays.
    std::error_code holds_something;
    fs::remove(checkpoints, holds_something);
    fs::remove(options.folder, holds_something);
    throw;
  }
  if (begins) {
    config.ranks = session.config().ranks;
    write_file(config_path(options.folder).string(), config.to_json() + "\n");
  }
  write_file((options.folder / "machine.json").string(), machine_json(*options.device) + "\n");
}

// The first rank probes and writes checkpoints while the others wait.
class LongWork {
 public:
  LongWork() { ranks().expect_long_work(true); }
  ~LongWork() { ranks().expect_long_work(false); }
  LongWork(const LongWork&) = delete;
  LongWork& operator=(const LongWork&) = delete;
};

class Run {
 public:
  Run(Session& session, const Corpus& corpus, const RunOptions& options)
      : session_(session),
        config_(session.config()),
        options_(options),
        corpus_(corpus),
        started_at_(steady_seconds()),
        finished_at_(started_at_),
        first_step_(session.step()) {
    together(ranks(), [&] {
      if (ranks().rank() > 0) return;
      files_.emplace(session, corpus, options, [this](const std::string& text) { warn(text); });
    });
    if (!files_ || !options.terminal || !is_terminal(options.terminal)) return;
    progress_.emplace(options.terminal);
    bool on_cpu = options.device == &cpu_device();
    if (on_cpu) {
      floor_ = static_cast<double>(config_.own_parts()) * gemm_floor(session.gradients());
    }
  }

  RunResult run() {
    RunResult result;
    if (session_.step() == 0) look();
    ranks().expect_long_work(false);
    bool stopped = false;
    while (session_.step() < config_.steps && !stopped) {
      start_step();
      stopped = any_rank(ranks(), options_.stop && options_.stop());
      bool pauses = stopped || evaluates() || saves() || any_rank(ranks(), is_look_due());
      // What is done between steps has to see the last one's results.
      while (session_.ahead() >= (pauses ? 1 : session_.most_ahead())) finish_step();
      if (!pauses) continue;
      LongWork work;
      look();
      if (evaluates()) result.valid = evaluate();
      if (stopped || saves()) {
        if (files_) files_->events.flush();  // a resumed run does not write these steps again
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
  bool saves() const { return is_due(checkpoint_interval(config_)); }

  bool is_look_due() const { return files_ && files_->record.is_due(); }

  // The first rank looks, and may demote products: then all do.
  void look() {
    session_.share_weights();
    if (files_) files_->record.look(files_->events);
    std::string overrides = broadcast_text(ranks(), config_.matmul_overrides);
    if (overrides != config_.matmul_overrides) session_.set_overrides(overrides);
  }

  void start_step() {
    double before = ranks().exchange_seconds();
    session_.start_step();
    exchange_seconds_ = ranks().exchange_seconds() - before;
  }

  // The oldest that is under way.
  void finish_step() {
    int64_t step = session_.step() - session_.ahead() + 1;
    StepResult result = session_.finish_step();
    double now = steady_seconds(), seconds = std::max(now - finished_at_, 1e-9);
    finished_at_ = now;
    options_.stepped(step);
    auto tokens = static_cast<double>(config_.size.batch * config_.size.time * config_.parts());
    if (!files_) return;
    if (result.skipped) {
      files_->record.skipped_step(
          step, fmt::format("skipped, the loss scale goes to {}", session_.loss_scaler().scale));
    }
    if (step % config_.log_every == 0 || step == config_.steps) {
      std::vector<Metric> metrics{
          {"loss", result.loss}, {"lr", result.rate}, {"tokens_per_s", tokens / seconds}};
      if (exchange_seconds_ > 0) metrics.push_back({"exchange_s", exchange_seconds_});
      write(step, metrics);
    }
    show(step, result.loss, tokens, seconds);
  }

  void write(int64_t step, const std::vector<Metric>& metrics) {
    files_->metrics.write(step, metrics);
    for (const Metric& metric : metrics) files_->events.scalar(metric.name, step, metric.value);
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
                       .bits_per_character = corpus_.source ? NAN : loss / std::numbers::ln2,
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
    if (!files_) return result;
    int64_t step = session_.step();
    std::vector<Metric> metrics{{"valid_loss", result.loss},
                                {"valid_bpc", result.bits_per_character}};
    for (const auto& [name, value] : result.parts) metrics.push_back({"valid_" + name, value});
    write(step, metrics);
    files_->events.flush();
    return result;
  }

  Session& session_;
  const TrainConfig& config_;
  const RunOptions& options_;
  const Corpus& corpus_;
  std::optional<RunFiles> files_;  // of the first rank
  std::optional<ProgressLine> progress_;
  double started_at_, finished_at_;  // the run, and its last step or pause
  int64_t first_step_;
  double exchange_seconds_ = 0;  // of the step that was started last; 0: not measured
  double floor_ = 0;             // seconds of a step's matrix products alone
};

}  // namespace

RunResult train(const TrainConfig& config, const RunOptions& options) {
  std::optional<Corpus> corpus;
  together(ranks(), [&] {
    config.check();
    check_folder(options.folder, options.resume);
    corpus = load_corpus(config, options.cache_folder);
  });
  return train(config, options, *corpus);
}

RunResult train(const TrainConfig& config, const RunOptions& options, const Corpus& corpus) {
  std::optional<Session> session;
  together(ranks(), [&] {
    config.check();
    check_folder(options.folder, options.resume);
    if (!corpus.source && corpus.valid.empty())
      throw Error("valid: expected a text, and the training text is too short to take it from");
    start_or_resume(session, config, options, corpus);
  });
  expect_the_same_everywhere(*session, corpus);
  std::optional<FolderLock> lock;  // of the first rank, until the run ends
  together(ranks(), [&] {
    // Only now, when nothing can be wrong with the settings and texts any more.
    if (ranks().rank() == 0) prepare_folder(lock, *session, config, options);
  });
  options.tell(memory_text(*session));
  if (std::string text = to_string(session->dispatched()); !text.empty()) options.tell(text);
  ranks().set_timeout(static_cast<double>(config.rank_timeout));
  return Run(*session, corpus, options).run();
}

}  // namespace sigma1
