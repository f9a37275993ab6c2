#include "sigma1/train/align.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/ops/residual.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

double standard_deviation(const Tensor& tensor) {
  double mean = 0, squares = 0;
  for (double x : tensor.data) mean += x / static_cast<double>(tensor.data.size());
  for (double x : tensor.data) squares += (x - mean) * (x - mean);
  return std::sqrt(squares / static_cast<double>(tensor.data.size()));
}

std::vector<int> joins_in(const Graph& graph) {
  std::vector<int> joins;
  for (int i = 0; i < graph.size(); ++i) {
    const Node& node = graph.node(i);
    if (node.op == &weighted_add_op && !node.attributes.get_or<std::string>("residual", "").empty())
      joins.push_back(i);
  }
  return joins;
}

std::vector<double> weights_of(const Node& node) {
  return node.attributes.get<std::vector<double>>("weights");
}

class Align : public testing::TestWithParam<const char*> {};

TEST_P(Align, MeasuresWhatTheReferenceSeesInThePlainModel) {
  Corpus corpus = tiny_corpus();
  for (const char* norm : {"pre", "post", "none"}) {
    TrainConfig config = tiny_config({{"method", "unit"},
                                      {"precision", "fp8"},
                                      {"depth", "2"},
                                      {"context", GetParam()},
                                      {"norm", norm},
                                      {"seed", "3"}});
    config.size.vocabulary = static_cast<int64_t>(corpus.vocabulary.size());
    Batch batch = batch_of(config, corpus, 0);
    std::vector<JoinScales> measured = measure_joins(config, batch);

    Graph graph;
    build_model(graph, config.model, config.size);
    Bindings bindings = initial_parameters(graph, 3);
    bindings.merge(bindings_of(batch));
    ReferenceResult result = run_reference(graph, bindings);
    std::vector<int> joins = joins_in(graph);
    ASSERT_EQ(measured.size(), joins.size());
    ASSERT_EQ(joins.size(), 4U);
    for (size_t i = 0; i < joins.size(); ++i) {
      const Node& join = graph.node(joins[i]);
      EXPECT_EQ(measured[i].join, join.name);
      EXPECT_EQ(measured[i].weights, weights_of(join));
      double skip = standard_deviation(result[join.inputs[0]]);
      double branch = standard_deviation(result[join.inputs[1]]);
      EXPECT_NEAR(measured[i].skip, skip, 1e-5 * skip) << join.name;
      EXPECT_NEAR(measured[i].branch, branch, 1e-5 * branch) << join.name;
      EXPECT_GT(std::fabs(skip - branch), 1e-3) << "alike, so they could be mixed up";
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Contexts, Align, testing::Values("attention", "conv", "rnn"));

TEST(AlignedWeights, AreWeightTimesScaleAtLengthOne) {
  JoinWeights weights = aligned_weights(
      {{"a", "", 1, 0.5, {0.6, 0.8}}, {"b", "", 2, 2, {1, 1}}, {"c", "", 3, 0, {1, 1}}});
  ASSERT_EQ(weights.size(), 3U);
  EXPECT_NEAR(weights["a"][0], 0.6 / std::sqrt(0.52), 1e-12);
  EXPECT_NEAR(weights["a"][1], 0.4 / std::sqrt(0.52), 1e-12);
  EXPECT_NEAR(weights["b"][0], std::sqrt(0.5), 1e-12);
  EXPECT_EQ(weights["c"], (std::vector<double>{1, 0}));
}

TEST(AlignedWeights, ScalesThatCannotBeWeighedAreNamed) {
  for (double scale : {0.0, double{NAN}, double{INFINITY}}) {
    std::string message = error_of([&] {
      aligned_weights({{"layer0/join", "", scale, 0, {1, 1}}});
    });
    EXPECT_NE(message.find("layer0/join"), std::string::npos) << message;
  }
}

// The session's graphs carry them; without alignment the model's own stay.
TEST(AlignedWeights, AreWhatAUnitScaledSessionJoinsBy) {
  Corpus corpus = tiny_corpus();
  for (const char* align : {"measure", "none"}) {
    Session session(tiny_config({{"method", "unit"}, {"align", align}}), corpus);
    bool measures = std::string_view(align) == "measure";
    EXPECT_EQ(session.alignment().weights.size(), measures ? 2U : 0U);
    Graph plain;
    build_model(plain, session.config().model, session.config().size);
    std::shared_ptr<Graph> scaled = scaled_model(session.config(), session.alignment());
    for (int i : joins_in(plain)) {
      const std::string& name = plain.node(i).name;
      const Node* join = nullptr;
      for (const Node& node : scaled->nodes()) {
        if (node.name == name) join = &node;
      }
      ASSERT_NE(join, nullptr) << name;
      std::vector<double> weights = weights_of(*join);
      EXPECT_NEAR(std::hypot(weights[0], weights[1]), 1, 1e-12) << name;
      std::vector<double> own = weights_of(plain.node(i));
      EXPECT_EQ(weights, measures ? session.alignment().weights.at(name) : own) << name;
      EXPECT_EQ(std::fabs(weights[1] - own[1]) > 1e-3, measures) << name;
    }
  }
}

TEST(AlignedWeights, OnlyUnitScalingHasThem) {
  Corpus corpus = tiny_corpus();
  EXPECT_TRUE(Session(tiny_config({{"align", "measure"}}), corpus).alignment().empty());
}

}  // namespace
}  // namespace sigma1
