#include "sigma1/train/monitor.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kCount = 1000;

// A tensor of a thousand numbers, so many of which the format loses.
TensorScale tensor(const std::string& name, TensorRole role, const std::string& format,
                   int64_t beyond, int64_t to_zero, std::vector<std::string> products = {}) {
  TensorScale result{.name = name, .role = role, .format = format};
  result.products = std::move(products);
  result.stats.count = kCount;
  result.stats.sum_squares = 4.0 * kCount;
  result.stats.abs_max = 512;
  result.loss.beyond = beyond;
  result.loss.to_zero = to_zero;
  return result;
}

std::vector<std::string> names_of(const std::vector<RunEvent>& events) {
  std::vector<std::string> names;
  for (const RunEvent& each : events) names.push_back(each.kind + " " + each.tensor);
  return names;
}

std::vector<std::string> products_of(const std::vector<Monitor::Demotion>& demotions) {
  std::vector<std::string> products;
  for (const Monitor::Demotion& each : demotions) products.push_back(each.product);
  return products;
}

// The only event for a tensor under these settings.
RunEvent event_for(const TensorScale& tensor, Settings settings = {}) {
  std::vector<RunEvent> events = Monitor(tiny_config(settings)).check(7, {&tensor, 1});
  EXPECT_EQ(events.size(), 1U);
  return events.empty() ? RunEvent{} : events.front();
}

bool says(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

constexpr TensorRole kActivation = TensorRole::activation, kWeight = TensorRole::weight,
                     kGradx = TensorRole::gradx, kGradw = TensorRole::gradw;

TEST(Monitor, TellsWhatIsBeyondALimitAndNotWhatIsAtIt) {
  Monitor monitor(tiny_config({{"saturation-limit", "0.002"}, {"underflow-limit", "0.05"}}));
  std::vector<TensorScale> tensors{
      tensor("fine", kActivation, "e4m3", 2, 50), tensor("large", kActivation, "e4m3", 3, 50),
      tensor("small", kGradx, "e5m2", 2, 51), tensor("both", kWeight, "e4m3", 3, 51)};
  std::vector<RunEvent> events = monitor.check(7, tensors);
  EXPECT_EQ(names_of(events), (std::vector<std::string>{"saturation large", "underflow small",
                                                        "saturation both", "underflow both"}));
  EXPECT_EQ(events[0].step, 7);
  EXPECT_EQ(events[0].role, "activation");
  EXPECT_EQ(events[0].format, "e4m3");
  EXPECT_EQ(events[0].share, 0.003);
  EXPECT_EQ(events[1].role, "gradx");
  EXPECT_EQ(events[1].share, 0.051);
}

// Zeros cannot become zero: the share is of the others.
TEST(Monitor, ReckonsUnderflowOfNumbersThatAreNotZero) {
  TensorScale half_zero = tensor("a", kGradx, "e5m2", 0, 40);
  EXPECT_TRUE(Monitor(tiny_config()).check(1, {&half_zero, 1}).empty());
  half_zero.stats.zeros = kCount / 2;
  EXPECT_EQ(event_for(half_zero).share, 0.08);
}

TEST(Monitor, TellsATensorOnceForEachKindAndRole) {
  Monitor monitor(tiny_config());
  std::vector<TensorScale> large{tensor("a", kActivation, "e4m3", 10, 0)};
  EXPECT_EQ(monitor.check(1, large).size(), 1U);
  EXPECT_TRUE(monitor.check(2, large).empty());
  std::vector<TensorScale> more{
      tensor("a", kActivation, "e4m3", 20, 100), tensor("a", kGradx, "e5m2", 20, 0),
      tensor("a", kWeight, "e4m3", 20, 0), tensor("b", kActivation, "e4m3", 20, 0)};
  std::vector<RunEvent> events = monitor.check(3, more);
  EXPECT_EQ(names_of(events), (std::vector<std::string>{"underflow a", "saturation a",
                                                        "saturation a", "saturation b"}));
  EXPECT_TRUE(monitor.check(4, more).empty());
}

TEST(Monitor, RemembersWhatAnEarlierPartTold) {
  std::vector<TensorScale> tensors{tensor("a", kActivation, "e4m3", 20, 100),
                                   tensor("b", kGradw, "e5m2", 0, 100)};
  std::vector<RunEvent> told = Monitor(tiny_config()).check(1, tensors);
  ASSERT_EQ(told.size(), 3U);
  Monitor resumed(tiny_config());
  resumed.remember(event_json(told[0]));
  resumed.remember(event_json(told[2]));
  resumed.remember(event_json({2, "skipped step", "", "", "", 0, "skipped"}));
  EXPECT_EQ(names_of(resumed.check(3, tensors)), (std::vector<std::string>{"underflow a"}));
}

TEST(Monitor, AdvisesProductsByName) {
  TensorScale cast = tensor("x", kActivation, "e4m3", 20, 0, {"layer0/up", "layer0/gate"});
  for (bool demote : {false, true}) {
    RunEvent event = event_for(cast, {{"demote", demote ? "true" : "false"}});
    EXPECT_TRUE(says(event.text, "the activation x is too large for e4m3: 2 % of its numbers"))
        << event.text;
    EXPECT_TRUE(says(event.text, "up to 512, and e4m3 ends at 448")) << event.text;
    EXPECT_TRUE(says(event.text, " --set matmul-overrides=layer0/up=fp16,layer0/gate=fp16 gives"))
        << event.text;
    EXPECT_EQ(says(event.text, "--demote"), !demote) << event.text;
    EXPECT_EQ(event.text.find('\n'), std::string::npos);
  }
  // What it names is a setting that works.
  TrainConfig config = tiny_config({{"precision", "fp8"}});
  config.set("matmul-overrides", "layer0/up=fp16,layer0/gate=fp16");
  EXPECT_EQ(config.resolved_precision().matmul_format("layer0/gate"), "fp16");
}

TEST(Monitor, AdvisesTheStorageOfWhatIsNotCast) {
  for (auto [role, setting] : {std::pair{kActivation, "--set activations=bf16"},
                               {kWeight, "--set weights=bf16"},
                               {kGradx, "--set gradients=bf16"},
                               {kGradw, "--set gradients=bf16"}}) {
    for (bool large : {true, false}) {
      RunEvent event = event_for(tensor("x", role, "fp16", large ? 20 : 0, large ? 0 : 100));
      EXPECT_TRUE(says(event.text, setting)) << event.text;
      EXPECT_FALSE(says(event.text, "matmul-overrides")) << event.text;
      EXPECT_FALSE(says(event.text, "--demote")) << "it moves 8-bit products only: " << event.text;
      EXPECT_EQ(says(event.text, "the gradient of x"), role == kGradx || role == kGradw);
    }
  }
  for (const char* format : {"bf16", "fp32"}) {
    RunEvent event = event_for(tensor("x", kGradw, format, 20, 0));
    EXPECT_FALSE(says(event.text, "=bf16")) << event.text;
    EXPECT_TRUE(says(event.text, "smaller rate")) << event.text;
  }
}

TEST(Monitor, AdvisesUnitScalingForUnderflowWithoutIt) {
  TensorScale small = tensor("x", kGradx, "e5m2", 0, 100, {"head"});
  for (const char* method : {"none", "loss-scale=8", "auto-loss-scale", "per-tensor=current"}) {
    RunEvent event = event_for(small, {{"method", method}, {"precision", "fp8"}});
    EXPECT_TRUE(says(event.text, "--method unit mends it")) << event.text;
  }
  RunEvent event = event_for(small, {{"method", "unit"}});
  EXPECT_FALSE(says(event.text, "--method")) << event.text;
  EXPECT_TRUE(says(event.text, "too small for e5m2: 10 % of its numbers become zero, its rms is 2"))
      << event.text;
  EXPECT_TRUE(says(event.text, "--set matmul-overrides=head=fp16")) << event.text;
  EXPECT_FALSE(says(event.text, "--demote")) << "it looks at what is too large: " << event.text;
}

TEST(Monitor, DemotesEachProductOnceAndEightBitsOnly) {
  Monitor monitor(tiny_config());
  std::vector<TensorScale> tensors{tensor("fine", kActivation, "e4m3", 1, 900, {"a"}),
                                   tensor("x", kActivation, "e4m3", 2, 0, {"b", "c"}),
                                   tensor("w", kWeight, "e3m2", 30, 0, {"c", "d"}),
                                   tensor("wide", kActivation, "fp16", 500, 0, {"e"}),
                                   tensor("stored", kActivation, "e4m3", 500, 0)};
  std::vector<Monitor::Demotion> demotions = monitor.demotions(tensors);
  EXPECT_EQ(products_of(demotions), (std::vector<std::string>{"b", "c", "d"}));
  EXPECT_EQ(demotions[1].because, &tensors[1]);
  RunEvent event = Monitor::event_of(9, demotions[2]);
  EXPECT_EQ(event_json(event),
            R"({"step":9,"kind":"demotion","tensor":"w","role":"weight","format":"e3m2",)"
            R"("share":0.03,"text":"d multiplies in fp16 from here on, because the weight w )"
            R"(saturates in e3m2"})");
}

TEST(Monitor, ALineHasEveryTensorThatLosesAnything) {
  std::vector<TensorScale> tensors{tensor("fine", kActivation, "e4m3", 0, 0),
                                   tensor("x", kActivation, "e4m3", 1, 0),
                                   tensor("y", kGradw, "fp16", 0, 5)};
  EXPECT_EQ(Monitor::line(3, tensors),
            R"({"step":3,"tensors":[)"
            R"({"name":"x","role":"activation","format":"e4m3","saturated":0.001,"underflow":0.0},)"
            R"({"name":"y","role":"gradw","format":"fp16","saturated":0.0,"underflow":0.005}]})");
  EXPECT_EQ(Monitor::line(3, {}), R"({"step":3,"tensors":[]})");
}

TEST(Monitor, AnEventWithoutATensorSaysNothingAboutOne) {
  EXPECT_EQ(event_json({2, "skipped step", "", "", "", 0, "a \"quoted\" text"}),
            R"({"step":2,"kind":"skipped step","text":"a \"quoted\" text"})");
}

}  // namespace
}  // namespace sigma1
