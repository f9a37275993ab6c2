// Runs small enough for tests on a GPU, and what they are compared by.
#pragma once

#include "sigma1/train/session.h"

namespace sigma1 {

inline TrainConfig small_config(const std::string& context, const std::string& precision) {
  TrainConfig made;
  made.size.context = context;
  made.size.depth = 2;
  made.size.width = 64;
  made.size.hidden = 128;
  made.size.batch = 4;
  made.size.time = 48;
  made.context = 8;
  made.precision = precision;
  made.dispatch = "none";  // or products so small would be of 16 bits
  made.steps = 50;
  return made;
}

inline std::vector<double> losses(Session& session, int steps) {
  std::vector<double> all;
  for (int i = 0; i < steps; ++i) all.push_back(session.train_step().loss);
  return all;
}

// As the trainer runs them: several under way at once.
inline std::vector<double> losses_ahead(Session& session, int steps) {
  std::vector<double> all;
  for (int i = 0; i < steps; ++i) {
    session.start_step();
    if (session.ahead() == session.most_ahead()) all.push_back(session.finish_step().loss);
  }
  while (session.ahead() > 0) all.push_back(session.finish_step().loss);
  return all;
}

inline std::vector<std::vector<std::byte>> tensors_of(const Session& session) {
  std::vector<std::vector<std::byte>> all;
  for (const std::string& name : session.store().names()) {
    if (name.ends_with("weight") || name.ends_with("moment")) {
      all.push_back(session.store().read_bytes(name));
    }
  }
  return all;
}

}  // namespace sigma1
