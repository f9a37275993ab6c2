// What goes through a model's nodes at initialisation, forward and back, where scale rules cannot
// know it: measured by one pass on a batch.
#pragma once

#include "sigma1/train/batch_source.h"

namespace sigma1 {

struct NodeScales {
  // By the names of nodes. Of sums and of ops whose function depends on scale:
  std::map<std::string, std::vector<double>> inputs;  // standard deviations, 0 for indices
  std::map<std::string, double> output;               // its standard deviation
  // Of attention: the share of keys that is not masked.
  std::map<std::string, double> filled_keys;
  // Of attention, and of ops that read activations and a parameter: what reaches their output.
  struct Gradient {
    double rms = 0, rows = 0;  // rows: the share that is not zero
  };
  std::map<std::string, Gradient> gradients;
};

// `model`: a forward graph that ends in an output `loss`; it gets its backward pass. In fp32, on
// the CPU, with parameters as they start.
NodeScales measure_nodes(std::shared_ptr<Graph> model, uint64_t seed, const ModelBatch& batch);

}  // namespace sigma1
