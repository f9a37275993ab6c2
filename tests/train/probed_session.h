// A tiny session looked at by a probe: what the tests of its numbers and of its formats share.
#pragma once

#include <gtest/gtest.h>

#include <set>

#include "sigma1/train/model_scales.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {

using Named = std::pair<TensorRole, std::string>;
using ByName = std::map<Named, TensorScale>;

inline bool is_gradient(TensorRole role) {
  return role == TensorRole::gradx || role == TensorRole::gradw;
}

inline ByName by_name(const std::vector<TensorScale>& list) {
  ByName scales;
  for (const TensorScale& each : list) {
    EXPECT_TRUE(scales.emplace(Named{each.role, each.name}, each).second) << each.name;
  }
  return scales;
}

inline std::set<std::string> forward_names(const Session& session) {
  std::shared_ptr<Graph> model = scaled_model(session.config(), session.alignment());
  std::set<std::string> names;
  for (const Node& node : model->nodes()) names.insert(node.name);
  return names;
}

class ScaleProbeTest : public testing::Test {
 protected:
  // Of the first step's batch, at a session's start.
  std::vector<TensorScale> scales_of(Settings settings, const ProbeOptions& options = {}) const {
    Session session(tiny_config(settings), corpus_);
    return scales_of(session, options);
  }
  std::vector<TensorScale> scales_of(const Session& session,
                                     const ProbeOptions& options = {}) const {
    return session_scales(session, session.config(), batch_of(session.config(), corpus_, 0),
                          options);
  }

  Corpus corpus_ = tiny_corpus();
};

}  // namespace sigma1
