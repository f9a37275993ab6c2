// Runs so small that a test can afford many: a text that has something to learn, a model of a few
// thousand parameters, and settings by key.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "sigma1/backend/reference.h"
#include "sigma1/train/session.h"

namespace sigma1 {

// Words drawn from a fixed list, always the same.
std::string tiny_text(size_t characters = 4000);
Corpus tiny_corpus(const std::string& text = tiny_text());

using Settings = std::initializer_list<std::pair<const char*, std::string>>;

// One layer of width 16, two sequences of 16 characters, plain fp32 Adam, 50 steps of constant
// rate; then what is given.
TrainConfig tiny_config(Settings settings = {});

// The batch that a session of this config takes for its `index`-th.
Batch batch_of(const TrainConfig& config, const Corpus& corpus, uint64_t index);
// Its tokens and mask, for the reference.
Bindings bindings_of(const Batch& batch);

std::vector<double> losses_of(Session& session, int steps);
// Every parameter and all of the optimiser's state.
std::map<std::string, std::vector<float>> tensors_of(const Session& session);
std::vector<std::string> parameters_of(const Session& session);

}  // namespace sigma1
