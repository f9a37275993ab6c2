#include "sigma1/train/train_config.h"
#include "tests/cli/train_run.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

class TrainCommand : public TrainRun {
 protected:
  void expect_mistake_without_folder(const Words& more, const Words& named) {
    expect_mistake(train(more), named);
    EXPECT_FALSE(fs::exists(run()));
  }
};

TEST_F(TrainCommand, TellsTheResult) {
  ProgramResult result = run_program(train());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "") << "progress is for terminals";
  EXPECT_TRUE(result.out.starts_with("20 steps in ")) << result.out;
  EXPECT_NE(result.out.find(" bits per character on 400 characters"), std::string::npos);
  EXPECT_EQ(lines_of(result.out).size(), 2U);
}

TEST_F(TrainCommand, ShowsProgressOnATerminal) {
  std::string shown = printed_on_terminal(train());
  EXPECT_NE(shown.find("step 20/20  loss "), std::string::npos) << shown;
  EXPECT_NE(shown.find("  bpc "), std::string::npos) << shown;
  EXPECT_NE(shown.find(" tokens/s"), std::string::npos) << shown;
}

TEST_F(TrainCommand, TellsTheResultAsJson) {
  nlohmann::json result = json_from(train());
  EXPECT_EQ(result["run"], run().string());
  EXPECT_EQ(result["steps"], 20);
  EXPECT_EQ(result["finished"], true);
  EXPECT_EQ(result["skipped"], 0);
  EXPECT_GT(result["seconds"], 0);
  EXPECT_EQ(result["valid_bpc"], metrics().back()["valid_bpc"]);
  EXPECT_EQ(result["valid_loss"], metrics().back()["valid_loss"]);
  EXPECT_EQ(json_from(resume())["valid_bpc"], result["valid_bpc"]);
}

TEST_F(TrainCommand, ACacheChangesNothing) {
  ASSERT_EQ(run_program(train({}, "without")).exit_code, 0);
  for (const char* name : {"first", "second"}) {
    ASSERT_EQ(run_program(train({"--cache", folder_ / "cache"}, name)).exit_code, 0);
    EXPECT_TRUE(metrics(name) == metrics("without"));
  }
  EXPECT_FALSE(fs::is_empty(folder_ / "cache"));
}

TEST_F(TrainCommand, RecordsAllTensorsUnlessToldOtherwise) {
  ASSERT_EQ(run_program(train()).exit_code, 0);
  std::vector<std::string> recorded = lines_of(content("scales.jsonl"));
  ASSERT_EQ(recorded.size(), 11U) << "the start, and every eighth of 20 steps";
  EXPECT_NE(recorded[0].find("\"gradw\""), std::string::npos);
  ASSERT_EQ(run_program(train({"--set", "probe=none"}, "unseen")).exit_code, 0);
  EXPECT_EQ(content("scales.jsonl", "unseen"), "");
  EXPECT_TRUE(metrics("unseen") == metrics());
}

TEST_F(TrainCommand, TellsWhatSaturatesAndMovesItWhenAsked) {
  ProgramResult told = run_program(train(saturating()));
  EXPECT_EQ(told.exit_code, 0);
  ASSERT_FALSE(told.err.empty());
  for (const std::string& line : lines_of(told.err)) {
    EXPECT_TRUE(line.starts_with("sigma1: step ")) << line;
    EXPECT_EQ(line.find("multiplies in fp16"), std::string::npos) << line;
  }
  EXPECT_NE(lines_of(told.err)[0].find(", or --demote does it"), std::string::npos) << told.err;
  Words demoting = saturating();
  demoting.emplace_back("--demote");
  ProgramResult moved = run_program(train(demoting, "moved"));
  EXPECT_EQ(moved.exit_code, 0);
  EXPECT_NE(moved.err.find(" multiplies in fp16 from here on, because "), std::string::npos);
  EXPECT_EQ(moved.err.find("--demote"), std::string::npos) << moved.err;
  EXPECT_TRUE(TrainConfig::from_file(run("moved") / "config.json").demote);
  EXPECT_NE(content("events.jsonl", "moved").find("\"demotion\""), std::string::npos);
  demoting.emplace_back("--resume");
  EXPECT_EQ(run_program(train(demoting, "moved")).exit_code, 0) << "its settings are still its own";
}

TEST_F(TrainCommand, ListsItsKeys) {
  ProgramResult result = run_program({"train", "--keys"});
  EXPECT_EQ(result.exit_code, 0);
  std::vector<std::string> lines = lines_of(result.out);
  ASSERT_GE(lines.size(), config_keys().size());
  for (const ConfigKey& key : config_keys()) {
    bool listed = std::ranges::any_of(lines, [&](const std::string& line) {
      return line.starts_with(std::string(key.name) + " ") &&
             line.find(key.help) != std::string::npos;
    });
    EXPECT_TRUE(listed) << key.name;
  }
  nlohmann::json keys = json_from({"train", "--keys"});
  ASSERT_EQ(keys.size(), config_keys().size());
  EXPECT_EQ(keys[0]["key"], "model");
  EXPECT_EQ(keys[0]["default"], "char_lm");
}

TEST_F(TrainCommand, TakesAConfigAndSettingsOverItInAnyOrderOfModelAndSizes) {
  std::string config = write("config.json", "{\n  // small\n  \"time\": 16, \"masked\": 4\n}");
  Words words{"train",  "--run",   run(),     "--train",  text_,   "--config",    config,
              "--set",  "depth=1", "--set",   "width=16", "--set", "model=gpt",   "--set",
              "ffn=32", "--set",   "time=12", "--steps",  "2",     "--precision", "fp16"};
  for (const char* extra : {"--set", "batch=2"}) words.emplace_back(extra);
  ProgramResult result = run_program(words);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  TrainConfig used = TrainConfig::from_file(run() / "config.json");
  EXPECT_EQ(used.model, "gpt");
  EXPECT_EQ(used.size.depth, 1);
  EXPECT_EQ(used.size.width, 16);
  EXPECT_EQ(used.size.time, 12);
  EXPECT_EQ(used.precision, "fp16");
  EXPECT_EQ(used.context, 4);
}

TEST_F(TrainCommand, FlagsCountOverSettingsWhereverTheyStand) {
  ASSERT_EQ(run_program(train({"--steps", "3", "--set", "steps=4", "--set", "seed=5"})).exit_code,
            0);
  TrainConfig used = TrainConfig::from_file(run() / "config.json");
  EXPECT_EQ(used.steps, 3);
  EXPECT_EQ(used.seed, 5);
}

TEST_F(TrainCommand, MistakesInSettingsAreOneLineAndLeaveNothing) {
  const std::pair<Words, Words> mistakes[] = {
      {{"--set", "stesp=3"}, {"stesp", "steps?"}},
      {{"--set", "steps"}, {"--set", "key=value", "'steps'"}},
      {{"--set", "steps=x"}, {"steps", "'x'"}},
      {{"--set", "steps=0"}, {"steps", "0"}},
      {{"--set", "model=gtp"}, {"gtp", "gpt?"}},
      {{"--set", "model=mlp"}, {"model", "mlp"}},
      {{"--set", "heads=3"}, {"heads", "3"}},
      {{"--set", "norm=x"}, {"norm", "'x'"}},
      {{"--set", "context=x"}, {"context", "'x'"}},
      {{"--set", "context=conv", "--set", "width=20"}, {"width", "20"}},
      {{"--set", "masked=16"}, {"masked", "16"}},
      {{"--set", "beta1=2"}, {"beta1", "2"}},
      {{"--set", "weights=e5m6"}, {"weights", "checkpoint", "e5m6"}},
      {{"--set", "moment=int8"}, {"moment", "checkpoint", "int8"}},
      {{"--set", "model=mlp", "masked=999"}, {"model", "mlp"}},
      {{"--set", "depth=9e15"}, {"depth", "9000000000000000"}},
      {{"--set", "width=2^32", "ffn=2^32"}, {"width", "ffn", "2^52"}},
      {{"--set", "attention-multiplier=1e-300"}, {"attention-multiplier", "1e-300"}},
      {{"--set", "init=a\xFF"}, {"init", "UTF-8", "0xFF"}},
      {{"--config", folder_}, {folder_, "directory"}},
      {{"--method", "loss-scale=x"}, {"method", "loss-scale=x"}},
      {{"--precision", "fp9"}, {"precision", "fp9"}},
      {{"--method", "per-tensor=current", "--precision", "fp16"}, {"per-tensor"}},
      {{"--config", "/nowhere.json"}, {"/nowhere.json"}},
      {{"--nope"}, {"--nope"}},
      {{"--resume"}, {"a run to resume"}},
      {{"--set", "probe=gradx:"}, {"probe", "'gradx:'"}},
      {{"--set", "probe=layer7/*"}, {"probe", "'layer7/*' means none"}},
      {{"--set", "probe-every=-1"}, {"probe-every", "-1"}},
      {{"--set", "saturation-limit=2"}, {"saturation-limit", "2"}},
      {{"--demote", "--set", "monitor-every=0"}, {"demote", "monitor-every"}},
  };
  for (const auto& [more, named] : mistakes) expect_mistake_without_folder(more, named);
  std::string config = write("bad.json", "{\"depth\": }");
  expect_mistake_without_folder({"--config", config}, {"bad.json", "line 1"});
  config = write("twice.json", R"({"depth": 1, "width": 16, "depth": 2})");
  expect_mistake_without_folder({"--config", config}, {"twice.json", "'depth' twice"});
}

TEST_F(TrainCommand, MistakesInTextsAreOneLineAndLeaveNothing) {
  expect_mistake_without_folder({"--train", write("empty.txt", "")}, {"empty.txt"});
  expect_mistake_without_folder({"--train", write("bad.txt", "abc\xC3\x28" + tiny_text())},
                                {"bad.txt"});
  expect_mistake_without_folder({"--train", folder_ / "missing.txt"}, {"missing.txt"});
  expect_mistake_without_folder({"--valid", folder_ / "missing.txt"}, {"missing.txt"});
  expect_mistake_without_folder({"--train", write("short.txt", "to be or not")}, {"16"});
  expect_mistake_without_folder({"--device", "gpu"}, {"device", "auto, cpu, cuda"});
  expect_mistake_without_folder({"--device", "cuda:1023"}, {"cuda"});
  expect_mistake_without_folder({"--train", ""}, {"train"});
  fs::create_directory(folder_ / "nothing");
  expect_mistake_without_folder({"--train", folder_ / "nothing"}, {"nothing"});
}

TEST_F(TrainCommand, MistakesInFoldersAreOneLine) {
  expect_mistake({"train", "--resume"}, {"--run"});
  expect_mistake({"train", "--train", text_, "--run", run(), "--threads", "-1"}, {"threads", "-1"});
  EXPECT_FALSE(fs::exists(run()));
  expect_mistake(resume(), {run().string()});
  EXPECT_FALSE(fs::exists(run()));
  ASSERT_EQ(run_program(train()).exit_code, 0);
  expect_mistake(train(), {"holds a run already", "--resume"});
  EXPECT_EQ(run_program(train({"--resume"})).exit_code, 0);
  expect_mistake(train({"--resume", "--set", "depth=3"}), {"--resume", "depth", "3"});
  // What is not said is the run's, not the default.
  Words again = resume();
  again.insert(again.end(), {"--steps", "20", "--set", "width=16"});
  EXPECT_EQ(run_program(again).exit_code, 0);
  again.emplace_back("rate=0.5");
  expect_mistake(again, {"--resume", "rate=0.0", "0.5"});
  std::string long_name(5000, 'x');
  expect_mistake(train({}, long_name), {"sigma1: " + run(long_name).string(), "too long"});
  expect_mistake(train({}, "text.txt"), {"text.txt"});
  expect_mistake(train({}, "text.txt/run"), {"text.txt"});
}

// More checkpoints are asked for than any disk holds.
TEST_F(TrainCommand, ADiskTooSmallIsToldBeforeTraining) {
  expect_mistake_without_folder({"--set", "steps=1000000000000", "--set", "checkpoint-every=1",
                                 "--set", "keep=1000000000000"},
                                {"free space", "keep"});
}

TEST_F(TrainCommand, ARateTooLargeNamesTensorAndStep) {
  ProgramResult result = run_program(train({"--rate", "1e30"}));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
  EXPECT_TRUE(result.err.starts_with("sigma1: step ")) << result.err;
  EXPECT_NE(result.err.find("is not finite"), std::string::npos) << result.err;
}

class TrainedModel : public TrainCommand {
 protected:
  void SetUp() override {
    TrainCommand::SetUp();
    valid_ = write("valid.txt", tiny_text(500));
    ASSERT_EQ(run_program(train({"--valid", valid_})).exit_code, 0);
  }
  std::string valid_;
};

TEST_F(TrainedModel, EvaluatesToTheRunsLastValidation) {
  std::string checkpoint = checkpoint_path(run() / "checkpoints", 20);
  for (const std::string& source : {run().string(), checkpoint}) {
    nlohmann::json result = json_from({"eval", source, valid_});
    EXPECT_EQ(result["bpc"], metrics().back()["valid_bpc"]);
    EXPECT_EQ(result["loss"], metrics().back()["valid_loss"]);
    EXPECT_EQ(result["characters"], 500);
    EXPECT_EQ(result["step"], 20);
    EXPECT_EQ(result["checkpoint"], checkpoint);
    EXPECT_EQ(result["text"], valid_);
    EXPECT_EQ(json_from({"eval", source})["bpc"], result["bpc"]);  // on the run's own text
  }
  ProgramResult plain = run_program({"eval", run(), valid_});
  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_EQ(plain.err, "");
  EXPECT_EQ(plain.out, fmt::format("{:.4f} bits per character on 500 characters (step 20)\n",
                                   metrics().back()["valid_bpc"].get<double>()));
}

// A name that is no UTF-8 cannot be shown as it is, but what was measured can.
TEST_F(TrainedModel, NamesOfFilesMayBeAnything) {
  std::string text = write("a\xFF.txt", tiny_text(500));
  EXPECT_EQ(json_from({"eval", run(), text})["text"], (folder_ / "a\uFFFD.txt").string());
  EXPECT_EQ(json_from(train({"--steps", "1"}, "b\xFF"))["steps"], 1);
}

TEST_F(TrainedModel, EvaluatesATextShorterThanAWindow) {
  EXPECT_EQ(json_from({"eval", run(), write("short.txt", "the")})["characters"], 3);
}

TEST_F(TrainedModel, CannotEvaluateEverything) {
  expect_mistake({"eval", run(), write("other.txt", "the Ωmega")}, {"other.txt", "U+03A9"});
  expect_mistake({"eval", run(), write("bad.txt", "the \xFF")}, {"bad.txt"});
  expect_mistake({"eval", run(), write("empty.txt", "")}, {"empty.txt"});
  expect_mistake({"eval", run(), folder_ / "missing.txt"}, {"missing.txt"});
  expect_mistake({"eval", folder_ / "no_run", valid_}, {"no_run"});
  expect_mistake({"eval", folder_, valid_}, {"checkpoint"});
  expect_mistake({"eval", text_, valid_}, {"text.txt"});
}

TEST_F(TrainedModel, GeneratesPromptAndLength) {
  Words words{"generate", run(), "--prompt", "the ", "--length", "30", "--seed", "5"};
  ProgramResult result = run_program(words);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(result.out.starts_with("the ")) << result.out;
  EXPECT_EQ(result.out.size(), 35U);  // and the end of the line
  EXPECT_TRUE(result.out.ends_with('\n'));
  EXPECT_EQ(run_program(words).out, result.out);
  words.back() = "6";
  EXPECT_NE(run_program(words).out, result.out);
}

TEST_F(TrainedModel, CannotGenerateFromEverything) {
  expect_mistake({"generate", run(), "--prompt", "the Ω"}, {"U+03A9"});
  expect_mistake({"generate", run(), "--prompt", "the \xFF"}, {});
  expect_mistake({"generate", run(), "--length", "0"}, {"--length"});
  expect_mistake({"generate", run(), "--temperature", "-1"}, {"temperature"});
  expect_mistake({"generate", run(), "--temperature", "nan"}, {"temperature"});
  expect_mistake({"generate", folder_ / "no_run"}, {"no_run"});
}

}  // namespace
}  // namespace sigma1
