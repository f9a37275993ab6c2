// A model as a checkpoint holds it, without a device or a step: for programs that carry it
// elsewhere.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sigma1/train/checkpoints.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {

// The numbers of every parameter, by name.
using ParameterValues = std::map<std::string, std::vector<float>>;

struct StoredModel {
  TrainConfig config;
  Vocabulary vocabulary;
  Alignment alignment;
  ParameterValues parameters;
};

// Sizes too are those of the model in the file. Throws Error when it is not a checkpoint of ours.
TrainConfig read_config(const Checkpoint& checkpoint);

// Takes the optimiser's own copy of a parameter where there is one: it has more digits. Throws
// Error when the file is not a checkpoint of ours, or lacks a parameter.
StoredModel read_model(const Checkpoint& checkpoint);

// What a session starts from, as save() writes it but for the optimiser's state.
void write_model(const std::filesystem::path& folder, const StoredModel& model);

// As fp32. Throws Error, naming the file, for a tensor of whole numbers.
std::vector<float> tensor_numbers(const StoredTensor& tensor, const std::string& path);

// How safetensors calls a format. Throws Error for one that it lacks.
std::string dtype_of(const FloatFormat& format);

// The model from inputs to scores, without its losses. A batch of another size leaves the factors
// as training had them; 0: training's.
std::shared_ptr<Graph> forward_graph(const TrainConfig& config, const Alignment& alignment,
                                     int64_t batch = 0);

}  // namespace sigma1
