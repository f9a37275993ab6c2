// The whole function of a plain model in its unit-scaled form (the paper's Appendix "Aligning"): at
// initialisation both compute the same, up to a constant. Residual layers are one part of it, see
// align.h; here activations, softmaxes and losses see what they see in the plain model too, and
// scale rules are told what they cannot know: how much of a batch is padding, which rows a gradient
// reaches, how alike the values are that attention averages.
#pragma once

#include "sigma1/train/batch_source.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {

// One setting, with the numbers that it follows from.
struct AlignedSetting {
  std::string node, setting;  // weights, or an attribute
  // What was measured in the plain and in the unit-scaled model. Of weights and multipliers:
  // standard deviations of what goes in; of a gain: of what comes out, for attention over what goes
  // in, and as the rule has it. Of shares the share; of gradients their root mean square, behind
  // the share of rows that have one.
  std::vector<double> plain, unit;
  std::vector<double> set;
};

struct FunctionAlignment {
  Alignment alignment;
  std::vector<AlignedSetting> settings;  // in the model's order
};

// The config by which the plain model is measured: a few sequences say it as well as many.
TrainConfig measured_config(const TrainConfig& config);

// `batch`: of measured_config(). One forward and backward pass of each model, on the CPU.
// Throws Error, naming the node, for a model whose function no such settings give.
FunctionAlignment align_function(const TrainConfig& config, const ModelBatch& batch);

// What a model of this config scores at initialisation, by the names of its outputs: to see whether
// two compute the same.
std::map<std::string, std::vector<float>> initial_scores(const TrainConfig& config,
                                                         const Alignment& alignment,
                                                         const ModelBatch& batch);

}  // namespace sigma1
