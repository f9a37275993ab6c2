// The experiments cost days to run, so that none may hold a mistake that shows only then.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "sigma1/base/text.h"
#include "sigma1/models/registry.h"
#include "sigma1/train/sweep_plan.h"

namespace sigma1 {
namespace {

const std::map<std::string, size_t> kCombinations = {{"char_results_test", 4 * 3 * 3},
                                                     {"char_sweep", 3 * 3 * 2 * 2 * 2 * 6},
                                                     {"char_residual", 3 * 3 * 3 * 2 * 2},
                                                     {"bert_small/record", 3 * 3},
                                                     {"gpt_record/traces", 5},
                                                     {"gpt_record/word_pieces", 6},
                                                     {"gpu_record/wikipedia", 4 * 5},
                                                     {"records_wikipedia", 3 * 7},
                                                     {"u_mup/widths", 2 * 4}};

std::map<std::string, SweepPlan> plans() {
  std::map<std::string, SweepPlan> found;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SIGMA1_EXPERIMENTS)) {
    if (entry.path().extension() != ".json") continue;
    std::filesystem::path name = entry.path().lexically_relative(SIGMA1_EXPERIMENTS);
    if (*name.begin() == "bert") continue;  // single runs
    found[name.replace_extension()] = SweepPlan::from_file(entry.path());
  }
  return found;
}

TEST(Experiments, AreAllThere) {
  std::map<std::string, size_t> found;
  for (const auto& [name, plan] : plans()) found[name] = plan.combinations().size();
  EXPECT_EQ(found, kCombinations);
}

TEST(Experiments, EveryModelCanBeBuilt) {
  std::set<std::string> built;
  for (const auto& [name, plan] : plans()) {
    for (const Combination& each : plan.combinations()) {
      const ModelConfig& size = each.config.size;
      if (!built.insert(size.context + size.norm + size.residual + std::to_string(size.depth))
               .second) {
        continue;
      }
      Graph graph;
      EXPECT_NO_THROW(build_model(graph, each.config.model, size)) << to_string(each.settings);
    }
  }
  EXPECT_GE(built.size(), 3U * 3 * 3 * 2);
}

TEST(Experiments, LaddersCoverThePapersTypicalRates) {
  const std::map<std::pair<bool, std::string>, std::pair<double, double>> typical = {
      {{false, "sgd"}, {0x1p-8, 0x1p-4}},
      {{false, "adam"}, {0x1p-12, 0x1p-8}},
      {{true, "sgd"}, {0x1p-14, 0x1p-10}},
      {{true, "adam"}, {0x1p-8, 0x1p-4}}};
  for (const auto& [name, plan] : plans()) {
    if (!name.starts_with("char_")) continue;  // a few rates only, or other models
    for (const Combination& each : plan.combinations()) {
      auto [low, high] = typical.at({each.config.method == "unit", each.config.optimiser});
      EXPECT_LE(each.ladder.start, low) << name << " " << to_string(each.settings);
      EXPECT_GE(each.ladder.limit, 4 * high) << name << " " << to_string(each.settings);
      EXPECT_EQ(each.config.steps, 1 << 19);
    }
  }
}

TEST(Experiments, TheGpuRecordChoosesRatesByShortRunsOfThePapersModels) {
  SweepPlan plan = plans().at("gpu_record/wikipedia");
  std::map<std::string, int> models, methods;
  for (const Combination& each : plan.combinations()) {
    const TrainConfig& config = each.config;
    ++models[config.size.context + " " + config.size.norm + std::to_string(config.size.depth)];
    ++methods[config.method + " " + config.precision];
    EXPECT_EQ(config.steps, 1 << 15);
    EXPECT_EQ(each.on_ladder(0).steps, 1 << 11);
    EXPECT_EQ(each.ladder.rates().size(), 4U) << to_string(each.settings);
    EXPECT_EQ(config.size.batch * 1000 + config.size.time, 8256);
    EXPECT_EQ(config.context, 32);
    EXPECT_EQ(config.epsilon, 1e-7);
  }
  EXPECT_EQ(models,
            (std::map<std::string, int>{
                {"attention pre8", 5}, {"attention post8", 5}, {"conv pre8", 5}, {"rnn pre2", 5}}));
  EXPECT_EQ(methods, (std::map<std::string, int>{{"none fp32", 4},
                                                 {"unit fp32", 4},
                                                 {"unit fp16", 4},
                                                 {"none fp16", 4},
                                                 {"loss-scale=2048 fp16", 4}}));
}

// One ladder for all widths: where the best rate moves must be seen.
TEST(Experiments, WidthsOfUMupClimbTheSameLadders) {
  SweepPlan plan = plans().at("u_mup/widths");
  std::map<std::string, std::set<std::pair<double, double>>> ladders;
  std::map<std::string, std::set<int64_t>> widths;
  for (const Combination& each : plan.combinations()) {
    ModelConfig size = each.config.size.resolved();
    ladders[size.parametrization].emplace(each.ladder.start, each.ladder.limit);
    widths[size.parametrization].insert(size.width);
    EXPECT_EQ(size.width, 64 * size.heads);
    EXPECT_EQ(4 * size.width, size.hidden);
  }
  for (const char* parametrization : {"unit", "u-mup"}) {
    EXPECT_EQ(ladders[parametrization].size(), 1U);
    EXPECT_EQ(widths[parametrization], (std::set<int64_t>{128, 256, 512, 1024}));
  }
}

// The paper's table of hyperparameters; for one process, and for sixteen that share the batch.
TEST(Experiments, BertIsPretrainedAsInThePaper) {
  for (std::string size : {"base", "large"}) {
    for (int phase : {1, 2}) {
      for (std::string ranks : {"", "_16_ranks"}) {
        std::string path =
            SIGMA1_EXPERIMENTS "/bert/" + size + "_phase" + std::to_string(phase) + ranks + ".json";
        SCOPED_TRACE(path);
        TrainConfig config = TrainConfig::from_file(path);
        EXPECT_NO_THROW(config.check());
        EXPECT_EQ(config.size.named, size);
        EXPECT_EQ(config.size.depth, size == "base" ? 12 : 24);
        EXPECT_EQ(config.size.time, phase == 1 ? 128 : 384);
        EXPECT_GE(config.size.predictions,
                  std::lround(0.15 * static_cast<double>(config.size.time)));
        EXPECT_EQ(config.size.batch * config.parts(), phase == 1 ? 16320 : 4080);
        EXPECT_EQ(config.rate, phase == 1 ? 0.0045 : 0.0015);
        EXPECT_EQ(config.steps, phase == 1 ? 28266 : 8437);
        EXPECT_EQ(config.warmup, phase == 1 ? 2827 : 275);
        EXPECT_EQ(config.init, phase == 1 ? "" : "runs/bert_" + size + "_phase1" + ranks);
        EXPECT_EQ(config.optimiser + " " + config.schedule, "lamb linear");
        EXPECT_EQ(config.epsilon, 1e-6);
        EXPECT_EQ(config.weight_decay, 0.01);
        EXPECT_EQ(config.ranks, ranks.empty() ? 0 : 16);
        EXPECT_EQ(config.reduce, ranks.empty() ? "fp32" : "fp16");
      }
    }
  }
}

// Scales are looked at when it starts and when it ends, and every method climbs one ladder: LAMB's
// steps are in proportion to the weights.
TEST(Experiments, SmallBertsDifferInMethodAndSeedAlone) {
  SweepPlan plan = plans().at("bert_small/record");
  std::map<std::string, std::set<int64_t>> seeds;
  for (const Combination& each : plan.combinations()) {
    seeds[each.config.method + " " + each.config.precision].insert(each.config.seed);
    EXPECT_NO_THROW(each.config.check());
    EXPECT_EQ(each.config.size.width, 64 * each.config.size.heads);
    EXPECT_EQ(each.config.probe_every, each.config.steps);
    EXPECT_EQ(each.ladder.rates(), plan.ladder.rates());
    EXPECT_LE(10 * each.ladder_steps, each.config.steps);
  }
  std::set<int64_t> all{0, 1, 2};
  EXPECT_EQ(seeds, (std::map<std::string, std::set<int64_t>>{
                       {"loss-scale=512 fp16", all}, {"unit fp16", all}, {"unit fp8", all}}));
}

TEST(Experiments, FiguresAreByKeysThatAreSwept) {
  for (const auto& [name, plan] : plans()) {
    std::vector<std::string> swept = plan.swept_keys();
    for (const std::string& key : split(plan.figure_by, ',')) {
      EXPECT_NE(std::ranges::find(swept, key), swept.end()) << name << " " << key;
    }
  }
}

}  // namespace
}  // namespace sigma1
