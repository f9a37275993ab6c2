// What a run leaves of its tensors' scales, and what it tells about them: scales.jsonl,
// monitor.jsonl, events.jsonl, and histograms for TensorBoard.
#pragma once

#include <functional>
#include <optional>

#include "sigma1/train/event_file.h"
#include "sigma1/train/monitor.h"
#include "sigma1/train/scale_probe.h"
#include "sigma1/train/session.h"
#include "sigma1/train/step_log.h"

namespace sigma1 {

class RunRecord {
 public:
  // `filter`: which tensors are recorded. Goes on with what the folder has, up to the session's
  // step.
  RunRecord(const std::filesystem::path& folder, Session& session, const Corpus& corpus,
            std::string_view filter, std::function<void(const std::string&)> tell);

  // Whether the session's step is one to look at the tensors after, before the first step too.
  bool is_due() const { return records() || watches(); }
  // Looks if it is due. May demote products of the session.
  void look(EventFile& events);
  void skipped_step(int64_t step, const std::string& text);

 private:
  bool is_due(int64_t every) const;
  bool records() const;
  bool watches() const;
  std::vector<TensorScale> measure();
  void record(std::span<const TensorScale> tensors, EventFile& events);
  void watch(std::span<const TensorScale> tensors);
  void tell(const RunEvent& event);
  void tell_all(std::vector<RunEvent> events);

  Session& session_;
  const Corpus& corpus_;
  ProbeFilter filter_;
  std::function<void(const std::string&)> tell_;
  std::filesystem::path events_path_;
  StepLog scales_, monitor_log_, events_;
  Monitor monitor_;
  std::optional<ScaleProbe> probe_;  // made when it is first needed
};

}  // namespace sigma1
