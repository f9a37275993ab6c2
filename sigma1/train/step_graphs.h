// The graphs of a training step, ready to become programs: gradients, the optimiser's update, and
// evaluation. All meet in the store, by the names given here.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sigma1/backend/device.h"
#include "sigma1/graph/graph.h"
#include "sigma1/passes/alignment.h"
#include "sigma1/passes/lowering.h"
#include "sigma1/train/tensor_labels.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {

// Names in the store, of what belongs to a parameter.
std::string gradient_name(const std::string& parameter);
std::string moment_name(const std::string& parameter);
std::string second_moment_name(const std::string& parameter);
std::string master_name(const std::string& parameter);
inline constexpr const char* kRate = "learning_rate";
inline constexpr const char* kStepCount = "step_count";          // from 1
inline constexpr const char* kGradientScale = "gradient_scale";  // undoes a loss scale that changes

// A graph and which of its outputs live in the store under which name.
struct StepGraph {
  std::shared_ptr<Graph> graph;
  std::map<std::string, std::string> stored;
};

// The model as the method wants it, forward only: unit-scaled, loss-scaled or plain.
std::shared_ptr<Graph> scaled_model(const TrainConfig& config, const Alignment& alignment);

// Loss, and the gradient of every parameter, added to what is there when several batches make a
// step; as suits the device.
StepGraph gradient_graph(const TrainConfig& config, const Alignment& alignment,
                         const Device& device);
// The same for looking at: with labels, and every tensor that a label names still apart. A model
// without a loss, a layer only, gets a squared error.
struct LabelledGraph {
  StepGraph step;
  TensorLabels labels;
};
LabelledGraph labelled_gradient_graph(const TrainConfig& config, const Alignment& alignment);
// Parameters, gradients and optimiser state to their next values, and the copies of the new
// parameters; of some parameters only, where others are the business of other ranks.
StepGraph update_graph(
    const TrainConfig& config, const Alignment& alignment, std::span<const WeightCopy> copies = {},
    const std::function<bool(const std::string&)>& wants = [](const std::string&) { return true; });
// Copies of parameters as they are: for when something else than the update has changed them.
StepGraph weight_copy_graph(const TrainConfig& config, std::span<const WeightCopy> copies);
// Loss alone, and the scores it is taken from when asked for.
StepGraph evaluation_graph(const TrainConfig& config, const Alignment& alignment,
                           bool with_scores = false);

}  // namespace sigma1
