#include "sigma1/train/run_record.h"

#include <algorithm>
#include <cmath>

#include "sigma1/train/model_scales.h"
#include "sigma1/train/scale_log.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

// Magnitudes by their logarithm: the numbers themselves would all share the bar at zero.
void write_histogram(EventFile& events, const TensorScale& tensor, int64_t step) {
  constexpr int kExponentBias = 127;
  const TensorStats& stats = tensor.stats;
  if (stats.abs_max == 0) return;
  std::vector<double> limits, counts;
  double sum = 0, sum_squares = 0;
  for (size_t i = 0; i < stats.binades.size(); ++i) {
    auto count = static_cast<double>(stats.binades[i]);
    double end = static_cast<double>(i) - kExponentBias + 1, middle = end - 0.5;
    if (count == 0 && (counts.empty() || std::exp2(end - 1) > stats.abs_max)) continue;
    limits.push_back(end);
    counts.push_back(count);
    sum += count * middle;
    sum_squares += count * middle * middle;
  }
  std::string tag = fmt::format("log2 magnitude/{}/{}", to_string(tensor.role), tensor.name);
  events.histogram(
      tag, step,
      {limits, counts, std::log2(stats.abs_min), std::log2(stats.abs_max), sum, sum_squares});
}

int64_t last_step(const Session& session) { return session.step() == 0 ? -1 : session.step(); }

}  // namespace

RunRecord::RunRecord(const fs::path& folder, Session& session, const Corpus& corpus,
                     std::string_view filter, std::function<void(const std::string&)> tell)
    : session_(session),
      corpus_(corpus),
      filter_(filter),
      tell_(std::move(tell)),
      events_path_(folder / "events.jsonl"),
      scales_(folder / "scales.jsonl", last_step(session)),
      monitor_log_(folder / "monitor.jsonl", last_step(session)),
      events_(events_path_, last_step(session)),
      monitor_(session.config()) {
  for (const StepLine& line : read_step_log(events_path_)) monitor_.remember(line.json);
}

bool RunRecord::is_due(int64_t every) const { return every > 0 && session_.step() % every == 0; }

bool RunRecord::records() const {
  const TrainConfig& config = session_.config();
  return !filter_.wants_nothing() &&
         (is_due(config.interval(config.probe_every)) || session_.step() == config.steps);
}

bool RunRecord::watches() const {
  return session_.step() > 0 && is_due(session_.config().monitor_every);
}

void RunRecord::look(EventFile& events) {
  if (!is_due()) return;
  std::vector<TensorScale> tensors = measure();
  if (records()) record(tensors, events);
  if (watches()) watch(tensors);
}

// On the batch of the next step, by the weights it will start from.
std::vector<TensorScale> RunRecord::measure() {
  const TrainConfig& config = session_.config();
  ProbeOptions options{.device = &session_.store().device()};
  if (!probe_) probe_.emplace(config, session_.alignment(), options);
  copy_state(session_, *probe_);
  write_batch(probe_->store(), step_batch(config, corpus_, session_.step()));
  return probe_->measure();
}

void RunRecord::record(std::span<const TensorScale> tensors, EventFile& events) {
  std::vector<TensorScale> wanted;
  for (const TensorScale& each : tensors) {
    if (filter_.wants({each.name, each.role})) wanted.push_back(each);
  }
  scales_.append(scales_line(session_.step(), wanted));
  for (const TensorScale& each : wanted) write_histogram(events, each, session_.step());
}

void RunRecord::watch(std::span<const TensorScale> tensors) {
  monitor_log_.append(Monitor::line(session_.step(), tensors));
  tell_all(monitor_.check(session_.step(), tensors));
  if (!session_.config().demote) return;
  bool demoted = false;
  for (const Monitor::Demotion& each : monitor_.demotions(tensors)) {
    session_.demote(each.product);
    demoted = true;
    tell(Monitor::event_of(session_.step(), each));
  }
  if (demoted) probe_.reset();
}

// A method that loses bits loses them everywhere: a person is told of the worst few.
void RunRecord::tell_all(std::vector<RunEvent> events) {
  constexpr size_t kTold = 3;
  std::ranges::stable_sort(events, std::greater(), &RunEvent::share);
  for (size_t i = 0; i < events.size(); ++i) {
    if (i < kTold) {
      tell(events[i]);
    } else {
      events_.append(event_json(events[i]));
    }
  }
  if (events.size() > kTold) {
    tell_(fmt::format("step {}: and {} more, all in {}", session_.step(), events.size() - kTold,
                      events_path_.string()));
  }
}

void RunRecord::skipped_step(int64_t step, const std::string& text) {
  tell({step, "skipped step", "", "", "", 0, text});
}

void RunRecord::tell(const RunEvent& event) {
  events_.append(event_json(event));
  tell_(fmt::format("step {}: {}", event.step, event.text));
}

}  // namespace sigma1
