#include "sigma1/train/sweep_plan.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

SweepPlan plan_of(const std::vector<std::string>& axes, const std::string& ladder = "") {
  SweepPlan plan;
  for (const std::string& axis : axes) plan.axes.push_back(parse_axis(axis));
  if (!ladder.empty()) plan.ladder = parse_ladder(ladder);
  return plan;
}

RunOutcome bits(double valid_bpc) { return {.valid_bpc = valid_bpc}; }

// The rates that are run when they end in these values.
std::vector<double> climbed(const Ladder& ladder, const std::vector<RunOutcome>& outcomes) {
  LadderWalk walk(ladder);
  std::vector<double> rates;
  for (const RunOutcome& outcome : outcomes) {
    if (!walk.next()) break;
    rates.push_back(*walk.next());
    walk.saw(outcome);
  }
  return rates;
}

TEST(SweepAxis, TakesValuesOfOneKeyAndKeysBoundTogether) {
  EXPECT_EQ(parse_axis("context=attention|conv| rnn"),
            (SweepAxis{{{"context", "attention"}}, {{"context", "conv"}}, {{"context", "rnn"}}}));
  EXPECT_EQ(parse_axis("method=none, precision=fp32 | method=loss-scale=8,precision=fp16"),
            (SweepAxis{{{"method", "none"}, {"precision", "fp32"}},
                       {{"method", "loss-scale=8"}, {"precision", "fp16"}}}));
}

TEST(SweepAxis, NamesWhatIsWrong) {
  for (const char* text : {"", "context", "context=", "=conv", "context=conv|", "a=1,2|a=3,b=4"}) {
    EXPECT_NE(error_of([&] { parse_axis(text); }).find("vary: expected KEY=VALUE"),
              std::string::npos)
        << text;
  }
  EXPECT_NE(error_of([] { parse_axis("a=1,b=2|b=2,a=1"); }).find("the same keys"),
            std::string::npos);
}

TEST(SweepPlan, IsEveryCombinationTheFirstAxisSlowest) {
  SweepPlan plan =
      plan_of({"context=conv|rnn", "method=none,precision=fp32|method=unit,precision=fp16"});
  std::vector<std::string> names;
  for (const Combination& each : plan.combinations()) names.push_back(to_string(each.settings));
  EXPECT_EQ(names, (std::vector<std::string>{"context=conv,method=none,precision=fp32",
                                             "context=conv,method=unit,precision=fp16",
                                             "context=rnn,method=none,precision=fp32",
                                             "context=rnn,method=unit,precision=fp16"}));
  Combination third = plan.combinations()[2];
  EXPECT_EQ(third.config.size.context, "rnn");
  EXPECT_EQ(third.config.method, "none");
  EXPECT_EQ(third.config.precision, "fp32");
  EXPECT_EQ(plan.swept_keys(), (std::vector<std::string>{"context", "method", "precision"}));
  EXPECT_EQ(SweepPlan().combinations().size(), 1U);
}

TEST(SweepPlan, AnAxisMayHaveItsOwnLadders) {
  SweepPlan plan =
      plan_of({"method=none,ladder=2^-9:2^-8|method=unit,ladder=2^-4:2^-4"}, "1/8:1/4");
  plan.ladder.threshold = 0.5;
  auto combinations = plan.combinations();
  EXPECT_EQ(combinations[0].ladder.rates(), (std::vector<double>{0x1p-9, 0x1p-8}));
  EXPECT_EQ(combinations[1].ladder.rates(), (std::vector<double>{0x1p-4}));
  EXPECT_EQ(combinations[1].ladder.threshold, 0.5);
  EXPECT_EQ(to_string(combinations[1].settings), "method=unit");
  EXPECT_EQ(plan.swept_keys(), std::vector<std::string>{"method"});
}

TEST(SweepPlan, RefusesWhatMakesNoSense) {
  auto complaint = [](const std::vector<std::string>& axes, const std::string& ladder = "") {
    return error_of([&] { plan_of(axes, ladder).combinations(); });
  };
  EXPECT_NE(complaint({"depth=2|8", "width=64,depth=2"}).find("each key on one axis"),
            std::string::npos);
  EXPECT_NE(complaint({"rate=1|2"}, "1:2").find("a ladder or rates"), std::string::npos);
  EXPECT_NE(complaint({"depth=2|2"}).find("'depth=2' twice"), std::string::npos);
  EXPECT_NE(complaint({"train=a|b"}).find("one text"), std::string::npos);
  EXPECT_NE(complaint({"method=unit|none", "precision=fp8|fp9"})
                .find("method=unit,precision=fp9: precision: expected"),
            std::string::npos);
  EXPECT_NE(complaint({"dept=2"}).find("depth?"), std::string::npos);
}

TEST(SweepPlan, ANewAxisTakesThePlaceOfThoseThatShareAKey) {
  SweepPlan plan = plan_of({"context=conv", "method=none,precision=fp32", "depth=2|8"});
  plan.vary(parse_axis("precision=fp8"));
  plan.vary(parse_axis("width=64"));
  EXPECT_EQ(plan.swept_keys(),
            (std::vector<std::string>{"context", "precision", "depth", "width"}));
}

TEST(SweepPlan, ComesFromJson) {
  SweepPlan plan = SweepPlan::from_json(
      R"({"about": "a", "base": {"steps": 7}, "threshold": 0.2, "ladder": "1:4",
          "vary": ["depth=1|2", ["method=none,precision=fp32", "method=unit,precision=fp8"]],
          "figure-by": "depth"})",
      "f.json");
  EXPECT_EQ(plan.about, "a");
  EXPECT_EQ(plan.base.steps, 7);
  EXPECT_EQ(plan.ladder.threshold, 0.2);
  EXPECT_EQ(plan.ladder.rates(), (std::vector<double>{1, 2, 4}));
  EXPECT_EQ(plan.axes, (std::vector<SweepAxis>{
                           parse_axis("depth=1|2"),
                           parse_axis("method=none,precision=fp32|method=unit,precision=fp8")}));
  EXPECT_EQ(plan.figure_by, "depth");
}

TEST(SweepPlan, ShortRunsOfALadderStandBesideWholeOnes) {
  SweepPlan plan = SweepPlan::from_json(
      R"({"base": {"steps": 80}, "ladder": "1:4", "ladder-steps": 8, "vary": ["depth=1"]})", "f");
  Combination only = plan.combinations().at(0);
  EXPECT_EQ(only.on_ladder(2).steps, 8);
  EXPECT_EQ(only.on_ladder(2).rate, 2);
  EXPECT_EQ(only.at_rate(2).steps, 80);
  EXPECT_EQ(only.ladder_folder_name(2), "depth=1_rate=2^1_steps=8");
  EXPECT_EQ(only.folder_name(2), "depth=1_rate=2^1");
  plan.ladder_steps = 0;
  EXPECT_EQ(plan.combinations().at(0).ladder_folder_name(2), "depth=1_rate=2^1");
  EXPECT_EQ(plan.combinations().at(0).on_ladder(2).steps, 80);
  for (int64_t steps : {-1, 81}) {
    plan.ladder_steps = steps;
    EXPECT_NE(
        error_of([&] { plan.combinations(); }).find("ladder-steps: expected from 1 to the 80"),
        std::string::npos);
  }
  plan.ladder_steps = 8;
  plan.ladder = {};
  EXPECT_NE(error_of([&] { plan.combinations(); }).find("ladder-steps: expected a ladder"),
            std::string::npos);
}

TEST(SweepPlan, NamesFileAndKeyOfWhatIsWrong) {
  for (auto [json, named] : {std::pair{"[]", "f.json: expected a JSON object"},
                             {"{", "f.json: expected a JSON object"},
                             {R"({"vari": []})", "f.json: unknown key 'vari'"},
                             {R"({"vary": [3]})", "f.json: vary: "},
                             {R"({"vary": ["x"]})", "f.json: vary: "},
                             {R"({"ladder": "1"})", "f.json: ladder: "},
                             {R"({"threshold": "x"})", "f.json: threshold: "},
                             {R"({"ladder-steps": "x"})", "f.json: ladder-steps: "},
                             {R"({"base": {"stepz": 1}})", "f.json: unknown setting 'stepz'"}}) {
    std::string complaint = error_of([text = json] { SweepPlan::from_json(text, "f.json"); });
    EXPECT_TRUE(complaint.starts_with(named)) << complaint;
  }
}

TEST(Ladder, DoublesUpToTheLimit) {
  EXPECT_EQ(parse_ladder("2^-3:1").rates(), (std::vector<double>{0.125, 0.25, 0.5, 1}));
  EXPECT_EQ(parse_ladder("0.1:0.39").rates().size(), 2U);
  EXPECT_EQ(parse_ladder("0.1:0.4").rates().size(), 3U);
  EXPECT_EQ(Ladder().rates(), std::vector<double>{0});
  for (const char* text : {"", "1", "2:1", "0:1", "-1:1", "1:x", "1:2:4", "1:inf", "nan:1"}) {
    EXPECT_NE(error_of([&] { parse_ladder(text); }).find("ladder: expected"), std::string::npos)
        << text;
  }
}

TEST(Ladder, EndsWhereARunIsWorseThanTheBestByTheThreshold) {
  Ladder ladder{.start = 1, .limit = 16, .threshold = 0.1};
  std::vector<double> all{1, 2, 4, 8, 16};
  EXPECT_EQ(climbed(ladder, {bits(3), bits(2), bits(2.09), bits(2.05), bits(2)}), all);
  // Against the best so far, not against the one before.
  EXPECT_EQ(climbed(ladder, {bits(2), bits(2.09), bits(2.18), bits(1), bits(1)}),
            (std::vector<double>{1, 2, 4}));
  EXPECT_EQ(climbed(ladder, {bits(2), bits(1.5), bits(1.65), bits(1), bits(1)}),
            (std::vector<double>{1, 2, 4}));
}

TEST(Ladder, EndsWhereARunDiverges) {
  Ladder ladder{.start = 1, .limit = 16};
  RunOutcome diverged{.diverged = true};
  EXPECT_EQ(climbed(ladder, {bits(2), diverged, bits(1)}), (std::vector<double>{1, 2}));
  EXPECT_EQ(climbed(ladder, {diverged, bits(1)}), std::vector<double>{1});
}

TEST(Combination, HasAStableSafeFolderName) {
  SweepPlan plan = plan_of({"context=conv", "method=loss-scale=2048"}, "2^-9:1");
  EXPECT_EQ(plan.combinations()[0].folder_name(0x1p-9),
            "context=conv_method=loss-scale=2048_rate=2^-9");
  EXPECT_EQ(plan_of({}, "1:2").combinations()[0].folder_name(0.3), "rate=0.3");
  EXPECT_EQ(SweepPlan().combinations()[0].folder_name(0), "run");
  std::set<std::string> names;
  for (const char* value : {"layer0/*", "layer0/_", "layer0//", "../x"}) {
    Combination combination{.settings = {{"matmul-overrides", value}}, .config = {}, .ladder = {}};
    std::string name = combination.folder_name(0);
    EXPECT_EQ(name.find_first_of("/*"), std::string::npos) << name;
    names.insert(name);
  }
  EXPECT_EQ(names.size(), 4U);
}

}  // namespace
}  // namespace sigma1
