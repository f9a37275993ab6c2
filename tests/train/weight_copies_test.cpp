// Copies of weights that are kept between steps are at all times what a cast of the weights would
// be: training has the bits of a run that casts them in every step.
#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/graph/sources.h"
#include "sigma1/ops/pointwise.h"
#include "tests/backend/turning_device.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/casting_run.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

using Tensors = std::map<std::string, std::vector<float>>;

std::vector<WeightCopy> copies_of(const Session& session) {
  StepGraph step = gradient_graph(session.config(), session.alignment(), cpu_device());
  return keep_weight_casts(*step.graph);
}

// How many copies there are; each is the cast of its parameter, bit for bit.
size_t expect_true_copies(const Session& session) {
  std::vector<WeightCopy> copies = copies_of(session);
  for (const WeightCopy& each : copies) {
    std::vector<float> weights = session.store().read(each.parameter);
    std::vector<float> copy = session.store().read(each.name);
    for (float& weight : weights) weight = static_cast<float>(quantize(weight, each.cast));
    EXPECT_EQ(weights, copy) << each.name;
  }
  auto is_copy = [](const std::string& name) { return name.find("/as_e") != std::string::npos; };
  EXPECT_EQ(std::ranges::count_if(session.store().names(), is_copy), std::ssize(copies));
  return copies.size();
}

void expect_the_bits_of_casts(const TrainConfig& config) {
  constexpr int kSteps = 8;
  Corpus corpus = tiny_corpus();
  Session session(config, corpus);
  EXPECT_GT(expect_true_copies(session), 0U);
  CastingRun casting(session, corpus);
  for (const auto& [name, values] : tensors_of(session)) casting.store().write(name, values);
  EXPECT_EQ(losses_of(session, kSteps), casting.losses(kSteps));
  for (const auto& [name, values] : tensors_of(session)) {
    EXPECT_EQ(values, casting.store().read(name)) << name;
  }
  expect_true_copies(session);
}

TEST(WeightCopies, TrainWithTheBitsOfCasts) {
  for (const char* optimiser : {"adam", "adamw", "lamb", "sgd"}) {
    for (const char* model : {"gpt", "char_lm"}) {
      SCOPED_TRACE(std::string(optimiser) + " " + model);
      expect_the_bits_of_casts(tiny_config(
          {{"model", model}, {"optimiser", optimiser}, {"method", "unit"}, {"precision", "fp8"}}));
    }
  }
}

TEST(WeightCopies, TrainWithTheBitsOfCastsHoweverWeightsAreStored) {
  using Changes = std::vector<std::pair<const char*, std::string>>;
  for (const Changes& settings :
       std::vector<Changes>{{{"weight-rounding", "nearest"}},
                            {{"weight-rounding", "stochastic"}},
                            {{"master-weights", "true"}},
                            {{"master-weights", "true"}, {"weight-rounding", "nearest"}},
                            {{"weights", "fp32"}},
                            {{"weights", "bf16"}},
                            {{"accumulate", "3"}},
                            {{"recompute", "blocks"}, {"depth", "2"}},
                            {{"matmul-overrides", "layer0/ffn/*=e5m2,head=e4m3"}},
                            {{"matmul-overrides", "layer0/*=stored"}, {"depth", "2"}}}) {
    TrainConfig config = tiny_config({{"model", "gpt"}, {"method", "unit"}, {"precision", "fp8"}});
    for (const auto& [key, value] : settings) config.set(key, value);
    SCOPED_TRACE(settings.front().first + ("=" + settings.front().second));
    expect_the_bits_of_casts(config);
  }
}

TEST(WeightCopies, AGradientsGraphCastsNoWeight) {
  Corpus corpus = tiny_corpus();
  Session session(tiny_config({{"model", "gpt"}, {"method", "unit"}, {"precision", "fp8"}}),
                  corpus);
  const Graph& graph = session.gradients().graph();
  for (const Node& node : graph.nodes()) {
    if (node.op != &identity_op) continue;
    EXPECT_NE(graph.node(node.inputs.front().node).op, &parameter_op) << node.name;
  }
}

TEST(WeightCopies, AreThereWhereWeightsBeginAnew) {
  Corpus corpus = tiny_corpus();
  TrainConfig config = tiny_config({{"model", "gpt"}, {"method", "unit"}, {"precision", "fp8"}});
  Session session(config, corpus);
  losses_of(session, 3);
  session.demote("layer0/ffn/up/linear");
  size_t left = expect_true_copies(session);
  losses_of(session, 3);
  EXPECT_EQ(expect_true_copies(session), left);
  session.set_overrides("");
  EXPECT_EQ(expect_true_copies(session), left + 1);
}

TEST(WeightCopies, StayWithTheWeightsWhereAStepIsNotMade) {
  Corpus corpus = tiny_corpus();
  TrainConfig config =
      tiny_config({{"model", "gpt"}, {"precision", "fp8"}, {"method", "none"}, {"rate", "1e30"}});
  Session session(config, corpus);
  EXPECT_THROW(losses_of(session, 5), NotFinite);
  EXPECT_GT(expect_true_copies(session), 0U);
}

// In both orientations, where a device reads them so.
TEST(WeightCopies, AreTurnedWheneverTheyAreWritten) {
  TurningDevice device;
  Corpus corpus = tiny_corpus();
  Session session(tiny_config({{"model", "gpt"}, {"method", "unit"}, {"precision", "fp8"}}), corpus,
                  device);
  auto expect_turned = [&](size_t count) {
    std::vector<WeightCopy> copies = copies_of(session);
    EXPECT_EQ(copies.size(), count);
    for (const WeightCopy& each : copies) {
      ASSERT_NE(session.store().at(each.name).turned, nullptr) << each.name;
      EXPECT_TRUE(is_turned(session.store().at(each.name))) << each.name;
    }
  };
  expect_turned(4);
  expect_true_copies(session);
  losses_of(session, 3);
  expect_turned(4);
  session.demote("layer0/ffn/up/linear");
  expect_turned(3);
  expect_true_copies(session);
}

class WeightCopiesOnDisk : public TemporaryFolderTest {};

TEST_F(WeightCopiesOnDisk, AreMadeAnewAndInNoCheckpoint) {
  Corpus corpus = tiny_corpus();
  TrainConfig config = tiny_config({{"model", "gpt"}, {"method", "unit"}, {"precision", "fp8"}});
  Session session(config, corpus);
  losses_of(session, 3);
  session.save(folder_);
  Checkpoint checkpoint = latest_checkpoint(folder_);
  for (const auto& tensor : checkpoint.file.tensors()) {
    EXPECT_EQ(tensor.name.find("/as_"), std::string::npos) << tensor.name;
  }
  Session resumed(checkpoint, &corpus);
  EXPECT_GT(expect_true_copies(resumed), 0U);
  EXPECT_EQ(losses_of(resumed, 3), losses_of(session, 3));
  config.init = folder_.string();
  Session begun(config, corpus);
  EXPECT_GT(expect_true_copies(begun), 0U);
}

}  // namespace
}  // namespace sigma1
