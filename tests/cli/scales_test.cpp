// What scripts read from `sigma1 scales` and what people are told must not drift.
#include <map>
#include <set>

#include "sigma1/base/file.h"
#include "tests/cli/train_run.h"
#include "tests/report/svg_reader.h"

namespace sigma1 {
namespace {

using nlohmann::json;

class Scales : public TrainRun {
 protected:
  // `sigma1 scales` of the tiny model that train() trains.
  Words scales(const Words& more = {}) const {
    Words words{"scales", "char_lm", "--threads", "1"};
    for (const char* setting :
         {"depth=1", "width=16", "ffn=32", "batch=2", "time=16", "masked=4"}) {
      words.insert(words.end(), {"--set", setting});
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Words on_text(Words more = {}) const {
    more.insert(more.begin(), {"--text", text_});
    return scales(more);
  }
  static std::vector<json> with(const json& list, const char* key, const std::string& value) {
    std::vector<json> found;
    for (const json& each : list) {
      if (each.at(key) == value) found.push_back(each);
    }
    return found;
  }
  static std::set<std::string> values_of(const json& list, const char* key) {
    std::set<std::string> values;
    for (const json& each : list) values.insert(each.at(key).get<std::string>());
    return values;
  }
};

using Names = std::set<std::string>;

TEST_F(Scales, JsonHasThePromisedKeys) {
  json list = json_from(on_text({"--method", "unit"}));
  ASSERT_GT(list.size(), 20U);
  for (const json& each : list) {
    EXPECT_TRUE(each.at("name").is_string()) << each;
    for (const char* key : {"std", "rms", "abs_max", "abs_min"}) EXPECT_GE(each.at(key), 0) << each;
    for (const char* key : {"zero", "subnormal", "saturated", "nonfinite", "lost"}) {
      EXPECT_TRUE(each.at(key) >= 0 && each.at(key) <= 1) << key << " of " << each;
    }
    EXPECT_LE(each["abs_min"], each["abs_max"]) << each;
    EXPECT_LE(each["rms"].get<double>(), each["abs_max"].get<double>() * (1 + 1e-6)) << each;
  }
  EXPECT_EQ(values_of(list, "role"), (Names{"activation", "weight", "gradx", "gradw"}));
  EXPECT_EQ(values_of(list, "format"), (Names{"e4m3", "e5m2", "fp16"}));
}

TEST_F(Scales, ForwardComesBeforeBackward) {
  json list = json_from(on_text({"--method", "none"}));
  bool backward = false;
  for (const json& each : list) {
    bool is_gradient = each["role"] == "gradx" || each["role"] == "gradw";
    EXPECT_FALSE(backward && !is_gradient) << each;
    backward = backward || is_gradient;
  }
  EXPECT_TRUE(backward);
  // A weight stands right before the first that reads it.
  EXPECT_EQ(list[0]["role"], "weight");
  EXPECT_EQ(list[1]["role"], "activation");
}

TEST_F(Scales, WithoutAMethodThreeAreCompared) {
  json list = json_from(on_text());
  EXPECT_EQ(values_of(list, "method"), (Names{"none", "loss-scale=2048", "unit"}));
  EXPECT_EQ(values_of(list, "when"), (Names{"start"}));
  std::vector<json> none = with(list, "method", "none"),
                    scaled = with(list, "method", "loss-scale=2048"),
                    unit = with(list, "method", "unit");
  ASSERT_EQ(none.size(), scaled.size());
  EXPECT_EQ(none.size(), unit.size());
  for (size_t i = 0; i < none.size(); ++i) {
    bool is_gradient = none[i]["role"].get<std::string>().starts_with("grad");
    EXPECT_EQ(none[i]["name"], scaled[i]["name"]);
    if (none[i]["std"] == 0) continue;
    EXPECT_NEAR(scaled[i]["std"].get<double>() / none[i]["std"].get<double>(),
                is_gradient ? 2048 : 1, is_gradient ? 1 : 1e-6)
        << scaled[i];
  }
  ProgramResult plain = run_program(on_text());
  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_EQ(plain.err, "");
  for (const char* words : {"none: std", "loss-scale=2048: std", "unit: std",
                            "unit, start: ", " tensors; rms ", " lose more than 1 %"}) {
    EXPECT_NE(plain.out.find(words), std::string::npos) << plain.out << words;
  }
}

TEST_F(Scales, OneMethodIsShownWithAllColumns) {
  ProgramResult result = run_program(on_text({"--method", "unit", "--filter", "weight:head"}));
  EXPECT_EQ(result.exit_code, 0);
  std::vector<std::string> lines = lines_of(result.out);
  ASSERT_GE(lines.size(), 3U);
  for (const char* heading : {"tensor", "format", "subnormal %", "saturated %", "lost %"}) {
    EXPECT_NE(lines[0].find(heading), std::string::npos) << lines[0];
  }
}

TEST_F(Scales, JudgesAllByOneFormatWhenAsked) {
  json list = json_from(on_text({"--method", "none", "--format", "e4m3"}));
  EXPECT_EQ(values_of(list, "format"), (Names{"e4m3"}));
  json fp8 = json_from(on_text({"--method", "none", "--format", "fp8"}));
  for (const json& each : fp8) {
    bool is_gradient = each["role"].get<std::string>().starts_with("grad");
    EXPECT_EQ(each["format"], is_gradient ? "e5m2" : "e4m3");
  }
  json wide = json_from(on_text({"--method", "none", "--format", "fp32"}));
  ASSERT_EQ(list.size(), wide.size());
  int64_t losing = 0;
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i]["rms"], wide[i]["rms"]) << "a format changes the judgement alone";
    EXPECT_EQ(wide[i]["lost"], 0);
    losing += list[i]["lost"] > 0;
  }
  EXPECT_GT(losing, 0);
}

TEST_F(Scales, FiltersByRoleAndName) {
  json list = json_from(on_text({"--method", "unit", "--filter", "gradw,weight:head"}));
  EXPECT_EQ(values_of(list, "role"), (Names{"gradw", "weight"}));
  for (const json& each : with(list, "role", "weight")) {
    EXPECT_TRUE(each["name"].get<std::string>().starts_with("head")) << each;
  }
}

TEST_F(Scales, TensorsOfZerosAloneHaveNoScale) {
  json weights = json_from(on_text({"--method", "none", "--filter", "weight"}));
  std::string zeros;
  for (const json& each : weights) {
    if (each["rms"] == 0) zeros = each["name"].get<std::string>();
  }
  ASSERT_NE(zeros, "") << "biases start at zero";
  ProgramResult result = run_program(on_text({"--method", "none", "--filter", "weight:" + zeros}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("1 tensors; all zero; 0 lose"), std::string::npos) << result.out;
}

TEST_F(Scales, LooksAgainAfterTraining) {
  json list = json_from(on_text({"--method", "unit", "--train", "5"}));
  std::vector<json> start = with(list, "when", "start"), end = with(list, "when", "end");
  EXPECT_EQ(start.size() + end.size(), list.size());
  ASSERT_EQ(start.size(), end.size());
  size_t moved = 0;
  for (size_t i = 0; i < start.size(); ++i) {
    EXPECT_EQ(start[i]["name"], end[i]["name"]);
    moved += start[i]["rms"] != end[i]["rms"];
  }
  EXPECT_GT(moved, start.size() / 2);
  EXPECT_EQ(start, with(json_from(on_text({"--method", "unit"})), "when", "start"));
  EXPECT_NE(run_program(on_text({"--method", "unit", "--train", "2"})).out.find("unit end: std"),
            std::string::npos);
}

TEST_F(Scales, RandomCharactersStandInForAText) {
  ProgramResult result = run_program(scales({"--method", "unit"}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
  EXPECT_NE(result.err.find("--text"), std::string::npos) << result.err;
  ProgramResult layer = run_program({"scales", "ffn", "--set", "width=16", "--set", "ffn=32",
                                     "--set", "batch=4", "--threads", "1"});
  EXPECT_EQ(layer.exit_code, 0) << layer.err;
  EXPECT_EQ(layer.err, "") << "a layer reads no text";
}

TEST_F(Scales, ReadsRunsAndCheckpoints) {
  ASSERT_EQ(run_program(train({"--method", "loss-scale=8"})).exit_code, 0);
  json of_run = json_from({"scales", run(), "--threads", "1"});
  EXPECT_EQ(values_of(of_run, "method"), (Names{"loss-scale=8"}));
  std::string checkpoint = checkpoint_path(run() / "checkpoints", 20);
  EXPECT_EQ(json_from({"scales", checkpoint, "--threads", "1"}), of_run);
  // It is what the run recorded last, judged by the run's formats.
  std::ifstream file(run() / "scales.jsonl");
  json last;
  for (std::string line; std::getline(file, line);) last = json::parse(line);
  ASSERT_EQ(last["step"], 20);
  ASSERT_EQ(last["tensors"].size(), of_run.size());
  for (size_t i = 0; i < of_run.size(); ++i) {
    for (const char* key : {"name", "role", "format", "std", "lost"}) {
      EXPECT_EQ(of_run[i][key], last["tensors"][i][key]);
    }
  }
  json fp16 = json_from({"scales", run(), "--precision", "fp16", "--threads", "1"});
  EXPECT_EQ(values_of(fp16, "format"), (Names{"fp16"}));
  json trained = json_from({"scales", run(), "--train", "3", "--threads", "1"});
  EXPECT_EQ(values_of(of_run, "when"), (Names{"step 20"}));
  EXPECT_EQ(with(trained, "when", "step 20"), of_run);
  EXPECT_EQ(with(trained, "when", "step 23").size(), of_run.size());
}

TEST_F(Scales, ACheckpointKeepsWhatMadeIt) {
  ASSERT_EQ(run_program(train()).exit_code, 0);
  for (const char* key : {"method", "scheme", "align"}) {
    expect_mistake({"scales", run(), "--" + std::string(key), "none"},
                   {key, run().string() + " has its own"});
  }
  expect_mistake({"scales", run(), "--set", "width=32"}, {"width", "has its own"});
  expect_mistake({"scales", run(), "--set", "model=gpt"}, {"model", "has its own"});
  expect_mistake({"scales", run(), "--config", run() / "config.json"}, {"--config", "its own"});
  expect_mistake({"scales", run(), "--text", write("other.txt", "the Ωmega")}, {"other.txt"});
}

// Random characters would be no sentences.
TEST_F(Scales, BertNeedsPairsToRead) {
  for (const char* command : {"scales", "doctor", "align"})
    expect_mistake({command, "bert"}, {"--text", "sigma1 bert prepare", "got none"});
}

TEST_F(Scales, WritesAFigure) {
  std::string path = folder_ / "scales.svg";
  ASSERT_EQ(run_program(on_text({"--svg", path})).exit_code, 0);
  std::string svg = read_file(path);
  ASSERT_NO_THROW(SvgParser(svg).parse());
  EXPECT_EQ(SvgParser(svg).parse().at(0).tag, "svg");
  for (const char* title : {"regular, start", "loss-scale=2048, start", "unit, start"}) {
    EXPECT_NE(svg.find(title), std::string::npos) << title;
  }
  ASSERT_EQ(run_program({"scales", "ffn", "--set", "width=16", "--set", "ffn=32", "--set",
                         "batch=4", "--threads", "1", "--svg", path})
                .exit_code,
            0);
  svg = read_file(path);
  EXPECT_NO_THROW(SvgParser(svg).parse());
}

TEST_F(Scales, ShowsWhatARunRecorded) {
  std::string run = folder_ / "run", path = folder_ / "recorded.svg";
  std::vector<std::string> train{"train", "--train", text_, "--run", run, "--threads", "1"};
  for (const char* setting : {"steps=4", "depth=1", "width=16", "ffn=32", "batch=2", "time=16",
                              "masked=4", "probe=all", "probe-every=2"})
    train.insert(train.end(), {"--set", setting});
  ProgramResult trained = run_program(train);
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  std::filesystem::remove_all(run + "/checkpoints");
  ProgramResult shown = run_program({"scales", run, "--recorded", "--svg", path});
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_NE(shown.out.find("unit, step 0"), std::string::npos) << shown.out;
  EXPECT_NE(shown.out.find("unit, step 4"), std::string::npos) << shown.out;
  EXPECT_NO_THROW(SvgParser(read_file(path)).parse());
  expect_mistake({"scales", run, "--recorded", "--train", "2"}, {"--recorded", "--train"});
  expect_mistake({"scales", folder_, "--recorded"}, {"scales.jsonl"});
}

TEST_F(Scales, MistakesAreOneLine) {
  expect_mistake({"scales"}, {"MODEL"});
  expect_mistake({"scales", "char_ml"}, {"char_ml", "did you mean char_lm?"});
  expect_mistake({"scales", folder_ / "none.safetensors"}, {"none.safetensors", "expected"});
  expect_mistake({"scales", text_}, {"text.txt"});
  expect_mistake({"scales", folder_}, {"checkpoint"});
  expect_mistake(scales({"--text", folder_ / "missing.txt"}), {"missing.txt"});
  expect_mistake(scales({"--format", "e9z"}), {"--format", "e9z"});
  expect_mistake(scales({"--train", "-1"}), {"--train", "-1"});
  expect_mistake(scales({"--train", "x"}), {"--train", "x"});
  expect_mistake(scales({"--filter", "gradx:"}), {"--filter", "gradx:"});
  expect_mistake(scales({"--filter", "layer9/*"}), {"--filter", "'layer9/*' means none"});
  expect_mistake(scales({"--filter", "none"}), {"--filter", "none"});
  expect_mistake(scales({"--method", "units"}), {"method", "units"});
  expect_mistake(scales({"--precision", "fp9"}), {"precision", "fp9"});
  expect_mistake(scales({"--threads", "-1"}), {"threads"});
  expect_mistake(scales({"--svg", folder_ / "no/a.svg"}), {"no/a.svg"});
  expect_mistake({"scales", "ffn", "--train", "5"}, {"--train", "ffn"});
  expect_mistake({"scales", "ffn", "--set", "width=0"}, {"width", "0"});
}

}  // namespace
}  // namespace sigma1
