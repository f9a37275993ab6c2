// What a probe says of a tensor against the reference and against a session's own gradients.
#include "sigma1/train/scale_probe.h"

#include <cmath>
#include <set>

#include "sigma1/base/error.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/probed_session.h"

namespace sigma1 {
namespace {

TensorStats stats_of(std::span<const double> values) {
  std::vector<float> floats(values.begin(), values.end());
  TensorStats stats;
  stats.add(floats);
  return stats;
}

Bindings bindings_for(const Session& session, const Batch& batch) {
  Bindings bindings = bindings_of(batch);
  const Graph& graph = session.gradients().graph();
  for (Value parameter : graph.parameters()) {
    const std::string& name = graph.node(parameter.node).name;
    std::vector<float> values = session.store().read(name);
    bindings[name] = Tensor(parameter.shape(), {values.begin(), values.end()});
  }
  return bindings;
}

class ProbeValues : public ScaleProbeTest,
                    public testing::WithParamInterface<std::pair<const char*, const char*>> {
 protected:
  TrainConfig config() const {
    return tiny_config({{"method", GetParam().first}, {"context", GetParam().second}});
  }
  Batch batch() const { return batch_of(config(), corpus_, 0); }
};

TEST_P(ProbeValues, EqualTheReferenceOfTheLoweredGraph) {
  Session session(config(), corpus_);
  ByName scales = by_name(scales_of(session));
  LabelledGraph labelled = labelled_gradient_graph(session.config(), session.alignment());
  ReferenceResult want = run_reference(*labelled.step.graph, bindings_for(session, batch()));
  size_t compared = 0;
  for (int i = 0; i < labelled.step.graph->size(); ++i) {
    auto label = labelled.labels.find({labelled.step.graph->node(i).name, 0});
    if (label == labelled.labels.end()) continue;
    auto scale = scales.find({label->second.role, label->second.name});
    if (scale == scales.end()) continue;
    TensorStats expected = stats_of(want[{labelled.step.graph.get(), i, 0}].data);
    EXPECT_NEAR(scale->second.stats.rms(), expected.rms(), 1e-5 * expected.rms())
        << scale->second.name;
    EXPECT_EQ(scale->second.stats.count, expected.count) << scale->second.name;
    ++compared;
  }
  EXPECT_GE(compared, scales.size() * 9 / 10);
}

// Lowering moves factors, but the shape of a distribution tells whose gradient it is.
TEST_P(ProbeValues, GradientsBelongToTheTensorTheyAreCalledAfter) {
  Session session(config(), corpus_);
  std::shared_ptr<Graph> graph = scaled_model(session.config(), session.alignment());
  Gradients gradients = differentiate(*graph, graph->output("loss"));
  ReferenceResult want = run_reference(*graph, bindings_for(session, batch()));
  std::map<std::string, int> nodes;
  for (int i = 0; i < graph->size(); ++i) nodes[graph->node(i).name] = i;
  size_t compared = 0;
  for (const TensorScale& each : scales_of(session)) {
    if (!is_gradient(each.role) || !nodes.contains(each.name)) continue;
    const Tensor& gradient = want[gradients.of({graph.get(), nodes[each.name], 0})];
    TensorStats expected = stats_of(gradient.data);
    if (expected.rms() == 0) continue;
    EXPECT_NEAR(each.stats.abs_max / each.stats.rms(), expected.abs_max / expected.rms(),
                1e-4 * expected.abs_max / expected.rms())
        << each.name;
    EXPECT_NEAR(std::fabs(each.stats.mean()) / each.stats.rms(),
                std::fabs(expected.mean()) / expected.rms(), 1e-4)
        << each.name;
    ++compared;
  }
  EXPECT_GT(compared, 20u);
}

TEST_P(ProbeValues, OfWeightsAndTheirGradientsAreTheSessions) {
  Session session(config(), corpus_);
  ByName scales = by_name(scales_of(session));
  for (const std::string& name : parameters_of(session)) {
    std::vector<float> weight = session.store().read(name);
    TensorStats expected;
    expected.add(weight);
    EXPECT_EQ(scales.at({TensorRole::weight, name}).stats.sum_squares, expected.sum_squares);
  }
  session.train_step();
  for (const std::string& name : parameters_of(session)) {
    std::vector<float> gradient = session.store().read(gradient_name(name));
    TensorStats expected;
    expected.add(gradient);
    const TensorStats& got = scales.at({TensorRole::gradw, name}).stats;
    EXPECT_NEAR(got.rms(), expected.rms(), 1e-5 * expected.rms()) << name;
    EXPECT_NEAR(got.abs_max, expected.abs_max, 1e-4 * expected.abs_max) << name;
  }
}
INSTANTIATE_TEST_SUITE_P(Methods, ProbeValues,
                         testing::Values(std::pair{"none", "attention"},
                                         std::pair{"unit", "attention"}, std::pair{"unit", "conv"},
                                         std::pair{"unit", "rnn"}, std::pair{"none", "rnn"}));

TEST_F(ScaleProbeTest, ListsForwardBeforeBackwardAndWeightsWhereTheyAreRead) {
  std::vector<TensorScale> scales = scales_of({});
  bool backward = false;
  std::map<Named, size_t> places;
  for (size_t i = 0; i < scales.size(); ++i) {
    backward = backward || is_gradient(scales[i].role);
    EXPECT_EQ(is_gradient(scales[i].role), backward) << scales[i].name;
    places[{scales[i].role, scales[i].name}] = i;
  }
  EXPECT_EQ(places.at({TensorRole::weight, "layer0/ffn/up/weight"}) + 2,
            places.at({TensorRole::activation, "layer0/ffn/up/linear"}));
  EXPECT_EQ(scales.front().name, "embedding/table");
}

TEST_F(ScaleProbeTest, NoTensorIsLeftWithoutAnOwner) {
  for (const char* context : {"attention", "conv", "rnn"}) {
    for (const TensorScale& each : scales_of({{"context", context}, {"method", "unit"}})) {
      EXPECT_FALSE(each.name.starts_with("grad/")) << each.name;
    }
  }
}

// Powers of two only move exponents.
TEST_F(ScaleProbeTest, ALossScaleMultipliesGradientsAlone) {
  ByName plain = by_name(scales_of({}));
  auto expect_times = [&](const ByName& scales, double factor) {
    ASSERT_EQ(scales.size(), plain.size());
    for (const auto& [key, scale] : scales) {
      const TensorStats& before = plain.at(key).stats;
      double times = is_gradient(key.first) ? factor : 1;
      EXPECT_EQ(scale.stats.sum, times * before.sum) << key.second;
      EXPECT_EQ(scale.stats.sum_squares, times * times * before.sum_squares) << key.second;
      EXPECT_EQ(scale.stats.abs_max, static_cast<float>(times) * before.abs_max) << key.second;
    }
  };
  expect_times(by_name(scales_of({{"method", "loss-scale=1024"}})), 1024);
  expect_times(by_name(scales_of({{"method", "auto-loss-scale"}})), 0x1p16);
}

TEST_F(ScaleProbeTest, AnAutomaticLossScaleIsTheSessions) {
  std::string text(2000, 'a');
  for (size_t i = 0; i < 80; ++i) text[25 * i + 7] = "bcdef"[i % 5];
  corpus_ = tiny_corpus(text);
  Session session(
      tiny_config({{"method", "auto-loss-scale"}, {"precision", "fp16"}, {"width", "64"}}),
      corpus_);
  ByName before = by_name(scales_of(session, {.filter = "gradw"}));
  ASSERT_TRUE(session.train_step().skipped);
  for (const TensorScale& each : scales_of(session, {.filter = "gradw"})) {
    EXPECT_EQ(2 * each.stats.sum, before.at({each.role, each.name}).stats.sum) << each.name;
  }
}

TEST_F(ScaleProbeTest, LeavesTheSessionsBitsAlone) {
  for (const char* method : {"unit", "per-tensor=delayed", "auto-loss-scale"}) {
    TrainConfig config = tiny_config({{"method", method}, {"precision", "fp8"}});
    Session alone(config, corpus_), watched(config, corpus_);
    for (int i = 0; i < 5; ++i) {
      scales_of(watched);
      EXPECT_EQ(watched.train_step().loss, alone.train_step().loss) << method;
    }
    EXPECT_TRUE(tensors_of(watched) == tensors_of(alone)) << method;
  }
}

// One batch is looked at, however many make a step: nothing is left from the last look.
TEST_F(ScaleProbeTest, LookingTwiceSeesTheSame) {
  for (const char* accumulate : {"1", "3"}) {
    Session session(tiny_config({{"accumulate", accumulate}}), corpus_);
    ScaleProbe probe(session.config(), session.alignment(), {});
    copy_state(session, probe);
    write_batch(probe.store(), batch_of(session.config(), corpus_, 0));
    ByName first = by_name(probe.measure()), second = by_name(probe.measure());
    std::set<std::string> forward = forward_names(session);
    ASSERT_EQ(first.size(), second.size());
    for (const auto& [key, scale] : first) {
      EXPECT_EQ(second.at(key).stats.sum_squares, scale.stats.sum_squares) << key.second;
      std::string owner = key.second.substr(0, key.second.find(" from "));
      EXPECT_TRUE(forward.contains(owner.substr(0, owner.find(':')))) << key.second;
    }
    for (const std::string& name : parameters_of(session)) {
      EXPECT_TRUE(first.contains({TensorRole::gradw, name})) << name;
    }
  }
}

bool wants(const char* filter, TensorRole role, const char* name) {
  return ProbeFilter(filter).wants({name, role});
}

TEST(ProbeFilter, TakesRolesNamesAndPatterns) {
  EXPECT_TRUE(wants("all", TensorRole::weight, "head/weight"));
  EXPECT_FALSE(wants("none", TensorRole::weight, "head/weight"));
  EXPECT_TRUE(ProbeFilter("none").wants_nothing());
  EXPECT_FALSE(ProbeFilter("all").wants_nothing());
  EXPECT_TRUE(wants("gradx", TensorRole::gradx, "head/linear"));
  EXPECT_FALSE(wants("gradx", TensorRole::gradw, "head/weight"));
  EXPECT_TRUE(wants("gradx,weight", TensorRole::weight, "head/weight"));
  EXPECT_TRUE(wants("weight:head/*,gradw:head/*", TensorRole::gradw, "head/bias"));
  EXPECT_FALSE(wants("weight:head/*,gradw:head/*", TensorRole::gradw, "shift/bias"));
  EXPECT_FALSE(wants("weight:head/*", TensorRole::gradw, "head/bias"));
  EXPECT_TRUE(wants("layer0/*", TensorRole::gradx, "layer0/ffn/relu"));
  EXPECT_TRUE(wants("layer0", TensorRole::gradx, "layer0/ffn/relu"));
  EXPECT_FALSE(wants("layer0", TensorRole::gradx, "layer01/ffn/relu"));
  EXPECT_TRUE(wants("*/relu", TensorRole::activation, "layer0/ffn/relu"));
  EXPECT_FALSE(wants("*/relu", TensorRole::activation, "layer0/ffn/up/linear"));
}

TEST(ProbeFilter, MistakesAreNamed) {
  for (const char* text : {"", "gradx,", "gradient:head", "weight:", ":head", ",", "all,:x"}) {
    std::string message = error_of([&] { ProbeFilter filter(text); });
    EXPECT_NE(message.find("expected all, none, or a list"), std::string::npos) << text;
    EXPECT_NE(message.find(fmt::format("'{}'", text)), std::string::npos) << message;
  }
}

TEST_F(ScaleProbeTest, AFilterMustMeanSomething) {
  std::vector<TensorScale> some = scales_of({}, {.filter = "weight:head/*,gradw:head/*"});
  EXPECT_EQ(some.size(), 4u);
  std::string message = error_of([&] { scales_of({}, {.filter = "gradx:nowhere/*"}); });
  EXPECT_NE(message.find("gradx:nowhere/*"), std::string::npos) << message;
}

}  // namespace
}  // namespace sigma1
