// How fast each parameter learns beside the others: factors of the one rate that a run is given.
#pragma once

#include "sigma1/graph/graph.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {

// Of a parameter of the model's graph.
//   regular: 1
//   unit:    1 for what is multiplied by, else width^-½ (the paper); 1 for all under LAMB, whose
//            steps are in proportion to the parameter already
//   u-mup:   fan_in^-½ for what is multiplied by, 1 for the readout, width^-½ for tables of
//   vectors, 1
//            for vectors; within the layers times depth^-½ (Blake et al., 2024)
double rate_factor(const TrainConfig& config, const Graph& model, Value parameter);

}  // namespace sigma1
