// Small BERTs with random numbers everywhere, and what they compute.
#pragma once

#include <map>
#include <string>

#include "sigma1/backend/reference.h"
#include "sigma1/train/stored_model.h"

namespace sigma1 {

// Model bert or bert_squad; no two sizes are equal, and the vocabulary is padded.
TrainConfig bert_config(const std::string& model, const std::string& method,
                        const std::string& scheme = "paper");

// Parameters about as large as the method's start, none of them as it starts.
StoredModel bert_example(const TrainConfig& config, const Alignment& alignment = {});

// A vocab.txt of as many tokens as the example has.
std::string bert_vocabulary();

// Batches in which the second sequence is shorter.
Bindings bert_inputs(const Graph& graph, int64_t words);

// The outputs of the forward graph, by name.
std::map<std::string, Tensor> bert_scores(const StoredModel& model, const Bindings& inputs);

// The same of a checkpoint by what trains and answers: the processor's kernels, in the config's
// formats. Inputs that only losses read may be missing.
std::map<std::string, Tensor> engine_scores(const Checkpoint& checkpoint, const Bindings& inputs);

}  // namespace sigma1
