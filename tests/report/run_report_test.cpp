// The page is checked by its data here: what a reader sees of it is a browser's business, in
// tests/interop.
#include "sigma1/report/run_report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "sigma1/report/run_data.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr std::string_view kConfig = R"({"model": "char_lm", "method": "unit", "steps": 3})";
constexpr std::string_view kMetrics =
    "{\"step\":1,\"loss\":4.5,\"lr\":0.5,\"tokens_per_s\":10}\n"
    "{\"step\":2,\"loss\":null,\"lr\":0.5,\"tokens_per_s\":30}\n"
    "{\"step\":2,\"valid_loss\":2.0,\"valid_bpc\":2.885}\n"
    "{\"step\":3,\"loss\":3.25,\"lr\":0.5,\"tokens_per_s\":20}\n"
    "{\"step\":3,\"valid_loss\":2.5,\"valid_bpc\":3.5}\n";

// A line of scales.jsonl with one tensor.
std::string measured(int step, double deviation, const std::string& name = "a",
                     const std::string& format = "e4m3") {
  Json tensor = {{"name", name},      {"role", "gradx"},      {"format", format},
                 {"count", 8},        {"std", deviation},     {"lost", 0.25},
                 {"abs_max", Json()}, {"first_exponent", -3}, {"histogram", {1, 0, 7}}};
  return Json({{"step", step}, {"tensors", {tensor}}}).dump() + "\n";
}

class RunReport : public TemporaryFolderTest {
 protected:
  fs::path make_run(const std::string& name, std::string_view metrics = kMetrics) {
    fs::create_directories(folder_ / name);
    write(name + "/config.json", kConfig);
    write(name + "/metrics.jsonl", metrics);
    return folder_ / name;
  }

  Json data_of(const fs::path& run) { return Json::parse(run_data(run, "name")); }
};

// What stands between the tags of the data, which is all a page can hold of a run.
std::string embedded(const std::string& page) {
  std::string tag = "<script type=\"application/json\" id=\"data\">";
  size_t begin = page.find(tag) + tag.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

TEST_F(RunReport, IsOnePageWithTheDataOfAllRunsInOrder) {
  std::vector<fs::path> runs = {make_run("b"), make_run("a")};
  std::string page = run_report(runs, "Two & <more>");
  EXPECT_TRUE(page.starts_with("<!DOCTYPE html>"));
  EXPECT_NE(page.find("<title>Two &amp; &lt;more&gt;</title>"), std::string::npos);
  EXPECT_EQ(page.find("{{"), std::string::npos);
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_EQ(page.find("href=\""), std::string::npos);
  Json data = Json::parse(embedded(page));
  EXPECT_EQ(data["title"], "Two & <more>");
  ASSERT_EQ(data["runs"].size(), 2U);
  EXPECT_EQ(data["runs"][0]["name"], "b");
  EXPECT_EQ(data["runs"][1]["name"], "a");
}

TEST_F(RunReport, HoldsTheCurvesAndTheResults) {
  Json run = data_of(make_run("a"));
  EXPECT_EQ(run["config"]["method"], "unit");
  EXPECT_EQ(run["train"]["steps"], Json({1, 2, 3}));
  EXPECT_EQ(run["train"]["values"], Json({4.5, nullptr, 3.25}));
  EXPECT_EQ(run["train"]["not_finite"], 1);
  EXPECT_EQ(run["valid_bpc"]["values"], Json({2.885, 3.5}));
  EXPECT_EQ(run["valid_loss"]["steps"], Json({2, 3}));
  EXPECT_EQ(run["results"], Json({{"steps", 3},
                                  {"final_loss", 3.25},
                                  {"best_bpc", 2.885},
                                  {"last_bpc", 3.5},
                                  {"tokens_per_s", 20}}));
}

TEST_F(RunReport, TellsWhatARunOfAnOlderVersionLacks) {
  Json run = data_of(make_run("a", ""));
  EXPECT_EQ(run["machine"], nullptr);
  EXPECT_EQ(run["scales"], nullptr);
  EXPECT_EQ(run["events"], nullptr);
  EXPECT_EQ(run["train"]["logged"], 0);
  EXPECT_EQ(run["results"]["final_loss"], nullptr);
}

TEST_F(RunReport, GathersATensorsMeasurements) {
  fs::path run = make_run("a");
  write("a/scales.jsonl", measured(0, 1.5) + measured(2, 2.5, "b", "e5m2") + measured(3, 3.5));
  Json data = data_of(run), scales = data["scales"];
  EXPECT_EQ(scales["steps"], Json({0, 2, 3}));
  ASSERT_EQ(scales["tensors"].size(), 2U);
  Json tensor = scales["tensors"][0];
  EXPECT_EQ(tensor["name"], "a");
  EXPECT_EQ(tensor["role"], "gradx");
  ASSERT_EQ(tensor["measurements"].size(), 3U);
  EXPECT_EQ(tensor["measurements"][1], nullptr);
  Json last = tensor["measurements"][2];
  std::map<std::string, Json> values;
  for (size_t i = 0; i < scales["columns"].size(); ++i) {
    values[scales["columns"][i]] = last["values"][i];
  }
  EXPECT_EQ(values["std"], 3.5);
  EXPECT_EQ(values["lost"], 0.25);
  EXPECT_EQ(values["abs_max"], nullptr);
  EXPECT_EQ(last["first"], -3);
  EXPECT_EQ(last["histogram"], Json({1, 0, 7}));
  EXPECT_EQ(data["formats"]["e4m3"]["max"], 448);
  EXPECT_EQ(data["formats"]["e5m2"]["min_normal"], std::exp2(-14));
  EXPECT_EQ(data["formats"]["e5m2"]["min_subnormal"], std::exp2(-16));
}

TEST_F(RunReport, KeepsTheFirstAndTheLastOfManyMeasurements) {
  fs::path run = make_run("a");
  std::string lines;
  for (int step = 0; step < 100; ++step) lines += measured(step, step + 1);
  write("a/scales.jsonl", lines);
  Json scales = data_of(run)["scales"];
  EXPECT_EQ(scales["measured"], 100);
  EXPECT_EQ(scales["steps"].size(), 24U);
  EXPECT_EQ(scales["steps"].front(), 0);
  EXPECT_EQ(scales["steps"].back(), 99);
  EXPECT_EQ(scales["tensors"][0]["measurements"].size(), 24U);
}

TEST_F(RunReport, KeepsTheNewestEvents) {
  fs::path run = make_run("a");
  std::string lines;
  for (int step = 0; step < 1200; ++step) {
    lines += Json({{"step", step}, {"kind", "underflow"}, {"text", "it lost"}}).dump() + "\n";
  }
  write("a/events.jsonl", lines);
  Json events = data_of(run)["events"];
  EXPECT_EQ(events["total"], 1200);
  ASSERT_EQ(events["newest"].size(), 1000U);
  EXPECT_EQ(events["newest"].back()["step"], 1199);
  EXPECT_EQ(events["newest"][0]["text"], "it lost");
}

TEST_F(RunReport, NamesCannotEndTheData) {
  std::string hostile = "</script><script>alert(1)</script><!-- \"'\\ é\u2028";
  fs::path run = make_run("a");
  write("a/scales.jsonl", measured(0, 1, hostile));
  std::string text = embedded(run_report(std::span(&run, 1), hostile));
  EXPECT_EQ(text.find('<'), std::string::npos);
  Json data = Json::parse(text);
  EXPECT_EQ(data["title"], hostile);
  EXPECT_EQ(data["runs"][0]["scales"]["tensors"][0]["name"], hostile);
}

TEST_F(RunReport, NamesRunsByWhatTellsThemApart) {
  std::vector<fs::path> runs = {make_run("one/run"), make_run("two/run"), make_run("two/other/")};
  Json data = Json::parse(embedded(run_report(runs, "t")));
  EXPECT_EQ(data["runs"][0]["name"], "one/run");
  EXPECT_EQ(data["runs"][1]["name"], "two/run");
  EXPECT_EQ(data["runs"][2]["name"], "two/other");
  runs.push_back(folder_ / "two/../one/run");
  EXPECT_NE(error_of([&] { run_report(runs, "t"); }).find("given twice"), std::string::npos);
}

TEST_F(RunReport, PassesOverALineThatAKilledRunCutShort) {
  fs::path run = make_run("a", std::string(kMetrics) + "{\"step\":4,\"lo");
  EXPECT_EQ(data_of(run)["results"]["steps"], 3);
}

TEST_F(RunReport, TellsMistakesByFileAndLine) {
  struct Mistake {
    std::string file, content, told;
  };
  for (const auto& [file, content, told] :
       {Mistake{"config.json", "{\n\"a\": }\n", "config.json: parse error at line 2"},
        {"config.json", "[]", "config.json:1: expected a JSON object"},
        {"metrics.jsonl", "{\"step\":1}\nnonsense\n", "metrics.jsonl:2: expected a JSON object"},
        {"metrics.jsonl", "{\"loss\":1}\n", "metrics.jsonl:1: expected a whole number as step"},
        {"metrics.jsonl", "{\"step\":1,\"loss\":\"x\"}\n", "expected a number as loss, got \"x\""},
        {"machine.json", "{", "machine.json: parse error at line 1"},
        {"scales.jsonl", "{\"step\":1}\n", "scales.jsonl:1: expected a list as tensors"},
        {"scales.jsonl", "{\"step\":1,\"tensors\":[7]}\n", "scales.jsonl:1: expected an object"},
        {"scales.jsonl", "{\"step\":1,\"tensors\":[{}]}\n",
         "scales.jsonl:1: expected a text as role"},
        {"scales.jsonl", measured(0, 1) + measured(1, 1, "a", "e4m4444"),
         "scales.jsonl:2: expected a number format, got \"e4m4444\""},
        {"events.jsonl", "{\"step\":1}\n", "events.jsonl:1: expected a text as kind"}}) {
    fs::remove_all(folder_ / "a");
    fs::path run = make_run("a");
    write("a/" + file, content);
    std::string error = error_of([&] { run_report(std::span(&run, 1), "t"); });
    EXPECT_NE(error.find(told), std::string::npos) << error;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST_F(RunReport, IsOfFoldersThatAreRuns) {
  fs::path run = folder_ / "none";
  auto error = [&] { return error_of([&] { run_report(std::span(&run, 1), "t"); }); };
  EXPECT_NE(error().find("none: expected a run's folder, and there is no config.json in it"),
            std::string::npos);
  run = make_run("a");
  fs::remove(run / "metrics.jsonl");
  EXPECT_NE(error().find("there is no metrics.jsonl in it"), std::string::npos);
  EXPECT_NE(error_of([] { run_report({}, "t"); }).find("at least one run"), std::string::npos);
}

TEST(ReduceCurve, TakesMeansOfStretchesAndTheLastPointAsItIs) {
  MetricCurve curve;
  for (int i = 1; i <= 9; ++i) {
    curve.steps.push_back(10 * i);
    curve.values.push_back(i == 2 || i == 3 || i == 4 ? double(NAN) : i);
  }
  MetricCurve reduced = reduce_curve(curve, 5);  // (1 2) (3 4) (5 6) (7 8) 9
  EXPECT_EQ(reduced.steps, std::vector<double>({15, 35, 55, 75, 90}));
  EXPECT_EQ(reduced.values[0], 1);
  EXPECT_TRUE(std::isnan(reduced.values[1]));
  EXPECT_EQ(reduced.values[2], 5.5);
  EXPECT_EQ(reduced.values[4], 9);
  EXPECT_EQ(reduce_curve(curve, 9).steps, curve.steps);
}

TEST(SpreadIndices, AreEvenAndHaveBothEnds) {
  EXPECT_EQ(spread_indices(0, 4), std::vector<size_t>());
  EXPECT_EQ(spread_indices(1, 4), std::vector<size_t>({0}));
  EXPECT_EQ(spread_indices(4, 4), std::vector<size_t>({0, 1, 2, 3}));
  EXPECT_EQ(spread_indices(10, 4), std::vector<size_t>({0, 3, 6, 9}));
}

}  // namespace
}  // namespace sigma1
