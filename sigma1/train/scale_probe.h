// Looks at every tensor of a gradient step. The step that trains is left alone: a probe is a
// program of its own for the same graph, in fp32 and with nothing fused, so that each tensor is
// seen as it would be with all its digits, beside the format that the run gives it. A run that is
// not probed pays nothing, and one that is computes the same bits.
#pragma once

#include <memory>

#include "sigma1/data/windows.h"
#include "sigma1/runtime/program.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {

// Which tensors: "all", "none", or a list of roles and patterns of names: "gradx",
// "weight:head/*,gradw:head/*", "layer0/*".
class ProbeFilter {
 public:
  // Throws Error for what is neither, named by what it was given for.
  explicit ProbeFilter(std::string_view text, std::string_view key = "probe");
  bool wants(const TensorLabel& label) const;
  bool wants_nothing() const { return parts_.empty(); }

 private:
  struct Part {
    std::optional<TensorRole> role;  // none: any
    std::string pattern;             // empty: any
  };
  std::vector<Part> parts_;
};

struct ProbeOptions {
  std::string format = {};  // judged by this one, or "fp8"; empty: by what the run casts to
  std::string filter = "all";
  std::string filter_key = "probe";  // what a mistake in the filter is told by
  const Device* device = &cpu_device();
};

class ScaleProbe {
 public:
  // Throws Error when no tensor passes the filter.
  ScaleProbe(const TrainConfig& config, const Alignment& alignment, const ProbeOptions& options);
  ~ScaleProbe();

  // Holds the inputs and parameters that a measurement reads, by their names.
  Store& store() { return store_; }
  const Graph& graph() const { return program_->graph(); }

  // In order of execution: forward, with each weight where it is first read, then backward.
  std::vector<TensorScale> measure();

 private:
  struct Target;

  void find_targets(const TrainConfig& config, const TensorLabels& labels,
                    const ProbeOptions& options);

  Store store_;
  std::unique_ptr<TensorMeter> meter_;
  std::shared_ptr<Graph> graph_;
  std::map<std::pair<std::string, int>, Target> targets_;  // by node and output
  std::unique_ptr<Program> program_;
};

}  // namespace sigma1
