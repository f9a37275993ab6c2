// What `sigma1 scales` and `sigma1 doctor` look at: a model by name or a checkpoint, and the text
// it reads.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sigma1/train/model_scales.h"
#include "tools/sigma1/settings.h"

namespace sigma1 {

struct MeasuredMethod {
  std::string method;
  std::string first = "start", last = "end";  // when: a checkpoint is at a step
  std::vector<TensorScale> start, end;        // end: after training; empty without
};

// --text, the training text by the name it has where --train is something else.
void add_text_option(CLI::App& command, SettingOptions& settings);

class ScaleSource {
 public:
  // `name`: a model's, or the path of a checkpoint or run. Throws Error when it is neither.
  ScaleSource(const std::string& name, const SettingOptions& settings, const Device& device);

  bool is_checkpoint() const { return checkpoint_.has_value(); }
  const Corpus& corpus() const { return corpus_; }
  // The settings with another method; a checkpoint has its own.
  TrainConfig config(const std::string& method) const;
  // The methods that were asked for, or the three that are compared.
  std::vector<std::string> methods() const;

  // At the start, or at the checkpoint; and after so many steps of training.
  MeasuredMethod measure(const std::string& method, const ProbeOptions& options,
                         int64_t train_steps = 0) const;

  // Says on stderr where random characters stood in for a text; after all that can go wrong, so
  // that a mistake is told alone.
  void tell_text() const;

 private:
  Corpus load_text(bool is_runs_own) const;

  TrainConfig config_;
  const Device& device_;
  bool method_given_;
  std::optional<Checkpoint> checkpoint_;
  Corpus corpus_;
};

}  // namespace sigma1
