// Keeps what a network computes apart from how it is stored. Unit scaling gives a residual branch
// and its skip the same scale; in the plain model they differ, and the network learns by that. So
// the plain model is measured once, at initialisation, and the unit-scaled one weighs its joins
// accordingly (the paper's Appendix "Aligning").
#pragma once

#include "sigma1/train/batch_source.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {

// Of every residual join, by the name of its node.
using JoinWeights = std::map<std::string, std::vector<double>>;

struct JoinScales {
  std::string join, skip_from;  // the node's name, and the name of what gives its skip
  double skip = 0, branch = 0;  // standard deviations of what comes in
  std::vector<double> weights;  // of the two in this model
};

// Of the plain model, or of any forward graph of a model, in its order: a run on one batch at
// initialisation.
std::vector<JoinScales> measure_joins(const TrainConfig& config, const ModelBatch& batch);
std::vector<JoinScales> measure_joins(const std::shared_ptr<Graph>& graph, uint64_t seed,
                                      const ModelBatch& batch);

// For a model whose tensors have unit scale: weight × scale of each, made to a² + c² = 1.
JoinWeights aligned_weights(const std::vector<JoinScales>& joins);

// For a model measured itself: the weights by which it computes what the reference does. Exact up
// to the first join whose branch was measured behind joins that did not match yet, so to be
// repeated with each result, once for every join.
JoinWeights matched_weights(const std::vector<JoinScales>& reference,
                            const std::vector<JoinScales>& target);

}  // namespace sigma1
