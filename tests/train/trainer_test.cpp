#include "sigma1/train/trainer.h"

#include "sigma1/base/parallel.h"
#include "sigma1/train/generate.h"
#include "tests/train/run_folder.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;
class Trainer : public RunFolderTest {};

TEST_F(Trainer, LeavesWhatARunFolderHas) {
  RunResult result = train(config(), {.folder = run_folder()});
  EXPECT_TRUE(result.finished);
  EXPECT_EQ(result.steps, 20);
  EXPECT_EQ(result.valid.characters, 400);
  EXPECT_EQ(names_in(run_folder()),
            (std::set<std::string>{"config.json", "machine.json", "metrics.jsonl", "scales.jsonl",
                                   "monitor.jsonl", "events.jsonl", "events", "checkpoints"}));
  EXPECT_EQ(run_config(run_folder()).to_json(), config().to_json());
  EXPECT_EQ(names_in(run_folder() / "checkpoints"),
            (std::set<std::string>{"step-00000010.safetensors", "step-00000015.safetensors",
                                   "step-00000020.safetensors"}));
  EXPECT_EQ(names_in(run_folder() / "events").size(), 1U);
}

TEST_F(Trainer, SaysWhatItRanOn) {
  train(config(), {.folder = run_folder()});
  Json machine = Json::parse(content("machine.json"));
  for (const char* key : {"version", "processor", "instruction_set", "gemm"}) {
    EXPECT_FALSE(machine.value(key, "").empty()) << machine;
  }
  EXPECT_EQ(machine["threads"], thread_count());
}

TEST_F(Trainer, WritesALineAStepAndALineAValidation) {
  RunResult result = train(config(), {.folder = run_folder()});
  int64_t step = 0, validations = 0;
  for (const Json& line : metrics()) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : line.items()) {
      keys.push_back(key);
      EXPECT_TRUE(value.is_number()) << line;
    }
    if (line.contains("valid_loss")) {
      EXPECT_EQ(keys, (std::vector<std::string>{"step", "valid_loss", "valid_bpc"}));
      EXPECT_EQ(line["step"], 5 * ++validations);
      EXPECT_EQ(line["step"], step) << "validations come after their step";
      continue;
    }
    EXPECT_EQ(keys, (std::vector<std::string>{"step", "loss", "lr", "tokens_per_s"}));
    EXPECT_EQ(line["step"], ++step);
    EXPECT_EQ(line["lr"], 0x1p-9);
    EXPECT_GT(line["tokens_per_s"], 0);
  }
  EXPECT_EQ(step, 20);
  EXPECT_EQ(validations, 4);
  EXPECT_EQ(metrics().back()["valid_bpc"], result.valid.bits_per_character);
}

TEST_F(Trainer, LogsAndSavesAsOftenAsAsked) {
  train(config({{"log-every", "6"},
                {"checkpoint-every", "7"},
                {"evaluate-every", "50"},
                {"evaluate-limit", "33"},
                {"keep", "2"}}),
        {.folder = run_folder()});
  std::vector<int64_t> logged, validated;
  for (const Json& line : metrics()) {
    (line.contains("loss") ? logged : validated).push_back(line["step"].get<int64_t>());
  }
  EXPECT_EQ(logged, (std::vector<int64_t>{6, 12, 18, 20}));
  EXPECT_EQ(validated, (std::vector<int64_t>{20}));
  EXPECT_EQ(names_in(run_folder() / "checkpoints"),
            (std::set<std::string>{"step-00000014.safetensors", "step-00000020.safetensors"}));
}

TEST_F(Trainer, LimitsTheValidationText) {
  RunResult result = train(config({{"evaluate-limit", "33"}}), {.folder = run_folder()});
  EXPECT_EQ(result.valid.characters, 33);
}

TEST_F(Trainer, AStoppedAndResumedRunEqualsAWholeOne) {
  train(config(), {.folder = run_folder("whole")});
  RunResult first = run_some(config(), false, 7);
  EXPECT_FALSE(first.finished);
  EXPECT_EQ(first.steps, 7);
  EXPECT_TRUE(fs::exists(run_folder() / "checkpoints/step-00000007.safetensors"));
  run_some(run_config(run_folder()), true, 5);
  RunResult last = train(run_config(run_folder()), {.folder = run_folder(), .resume = true});
  EXPECT_TRUE(last.finished);
  EXPECT_EQ(lasting_metrics(), lasting_metrics("whole"));
}

TEST_F(Trainer, AFinishedRunResumedChangesNothing) {
  RunResult once = train(config(), {.folder = run_folder()});
  std::string before = read_file(run_folder() / "metrics.jsonl");
  RunResult again = train(run_config(run_folder()), {.folder = run_folder(), .resume = true});
  EXPECT_TRUE(again.finished);
  EXPECT_EQ(again.steps, 20);
  EXPECT_EQ(again.valid.bits_per_character, once.valid.bits_per_character);
  EXPECT_EQ(read_file(run_folder() / "metrics.jsonl"), before);
}

// A program may end after the folder of checkpoints was made and before the first one is whole.
TEST_F(Trainer, ResumesARunThatHasNoCheckpointYetFromItsStart) {
  train(config(), {.folder = run_folder("whole")});
  run_some(config(), false, 3);
  for (bool with_folder : {true, false}) {
    fs::remove_all(run_folder() / "checkpoints");
    if (with_folder) {
      fs::create_directory(run_folder() / "checkpoints");
      write("run/checkpoints/step-00000003.safetensors.part", "half");
    }
    train(run_config(run_folder()), {.folder = run_folder(), .resume = true});
    EXPECT_EQ(lasting_metrics(), lasting_metrics("whole"));
  }
}

// Whoever wants a longer run by writing so into its file is told, not ignored.
TEST_F(Trainer, RefusesSettingsThatHaveChangedSinceTheRunBegan) {
  run_some(config(), false, 10);
  std::string path = run_folder() / "config.json", own = read_file(path), changed = own;
  size_t at = changed.find("\"steps\": 20");
  ASSERT_NE(at, std::string::npos);
  changed.replace(at, 11, "\"steps\": 60");
  write_file(path, changed);
  auto go_on = [&] { train(run_config(run_folder()), {.folder = run_folder(), .resume = true}); };
  std::string message = error_of(go_on);
  for (const char* part : {"config.json", "expected steps=20", "got 60"}) {
    EXPECT_NE(message.find(part), std::string::npos) << message;
  }
  EXPECT_EQ(read_file(path), changed);
  write_file(path, own);
  go_on();
}

TEST_F(Trainer, PassesOverABrokenCheckpointWithAWarning) {
  train(config(), {.folder = run_folder("whole")});
  train(config(), {.folder = run_folder()});
  fs::path newest = run_folder() / "checkpoints/step-00000020.safetensors";
  fs::resize_file(newest, fs::file_size(newest) / 2);
  std::vector<std::string> warnings;
  RunOptions options{.folder = run_folder(), .resume = true};
  options.warn = [&](const std::string& text) { warnings.push_back(text); };
  train(run_config(run_folder()), options);
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("step-00000020"), std::string::npos) << warnings[0];
  EXPECT_EQ(lasting_metrics(), lasting_metrics("whole"));
  for (const auto& entry : fs::directory_iterator(run_folder() / "checkpoints")) {
    fs::resize_file(entry.path(), 10);
  }
  EXPECT_NE(error_of([&] { train(config(), options); }).find("whole checkpoint"),
            std::string::npos);
}

TEST_F(Trainer, WarnsOfSkippedSteps) {
  std::string text(2000, 'a');
  for (size_t i = 0; i < 80; ++i) text[25 * i + 7] = "bcdef"[i % 5];
  TrainConfig skips =
      config({{"method", "auto-loss-scale"}, {"precision", "fp16"}, {"width", "64"}});
  skips.train_text = write("alike.txt", text);
  std::vector<std::string> warnings;
  RunOptions options{.folder = run_folder()};
  options.warn = [&](const std::string& each) { warnings.push_back(each); };
  RunResult result = train(skips, options);
  EXPECT_GT(result.skipped, 0);
  ASSERT_EQ(static_cast<int64_t>(warnings.size()), result.skipped);
  EXPECT_EQ(warnings[0], "step 1: skipped, the loss scale goes to 32768");
  ASSERT_EQ(static_cast<int64_t>(lines("events.jsonl").size()), result.skipped);
  EXPECT_EQ(lines("events.jsonl")[0].dump(),
            R"({"step":1,"kind":"skipped step","text":"skipped, the loss scale goes to 32768"})");
}

TEST_F(Trainer, MistakesLeaveNoFolder) {
  TrainConfig good = config(), bad = good;
  auto expect_nothing_left = [&](std::string_view part, const TrainConfig& each) {
    std::string message = error_of([&] { train(each, {.folder = run_folder()}); });
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_FALSE(fs::exists(run_folder())) << part;
  };
  bad.size.heads = 3;
  expect_nothing_left("heads", bad);
  bad = good;
  bad.train_text = folder_ / "missing.txt";
  expect_nothing_left("missing.txt", bad);
  bad.train_text = "";
  expect_nothing_left("train: expected", bad);
  bad.train_text = write("empty.txt", "");
  expect_nothing_left("empty.txt", bad);
  bad.train_text = write("garbled.txt", "ab\xFFzz");
  expect_nothing_left("garbled.txt", bad);
  bad.train_text = write("short.txt", "abcdefghijklmno");
  expect_nothing_left("16 characters", bad);
  bad.train_text = write("tiny.txt", "abcd");
  expect_nothing_left("valid: expected", bad);
  bad = good;
  bad.probe = "gradx:layer7/*";
  expect_nothing_left("probe: expected tensors of the model, and 'gradx:layer7/*' means none", bad);
  bad = good;
  bad.valid_text = folder_ / "missing.txt";
  expect_nothing_left("missing.txt", bad);
}

TEST_F(Trainer, RefusesAFolderThatHoldsARunAndToResumeWhereThereIsNone) {
  auto message = [&](bool resume) {
    return error_of([&] { train(config(), {.folder = run_folder(), .resume = resume}); });
  };
  EXPECT_NE(message(true).find("expected a run to resume"), std::string::npos);
  EXPECT_FALSE(fs::exists(run_folder()));
  train(config(), {.folder = run_folder()});
  std::string before = read_file(run_folder() / "metrics.jsonl");
  EXPECT_NE(message(false).find("holds a run already"), std::string::npos);
  EXPECT_EQ(read_file(run_folder() / "metrics.jsonl"), before);
}

class Generate : public Trainer {
 protected:
  std::string text_of(const GenerateOptions& options) {
    Checkpoint checkpoint = latest_checkpoint(run_folder() / "checkpoints");
    Session session(checkpoint, nullptr);
    std::string text;
    generate(session, options, [&](std::string_view piece) { text += piece; });
    return text;
  }
};

TEST_F(Generate, AddsCharactersToThePromptTheSameForTheSameSeed) {
  train(config({{"method", "unit"}, {"precision", "fp8"}}), {.folder = run_folder()});
  std::string text = text_of({.prompt = "the ", .length = 60, .seed = 1});
  EXPECT_EQ(text.size(), 64U);
  EXPECT_TRUE(text.starts_with("the "));
  EXPECT_EQ(text_of({.prompt = "the ", .length = 60, .seed = 1}), text);
  EXPECT_NE(text_of({.prompt = "the ", .length = 60, .seed = 2}), text);
  EXPECT_EQ(text_of({.length = 30, .temperature = 0, .seed = 1}),
            text_of({.length = 30, .temperature = 0, .seed = 2}));
  EXPECT_EQ(text_of({.prompt = "the ", .length = 20, .temperature = 1e-6}),
            text_of({.prompt = "the ", .length = 20, .temperature = 0}));
}

// A model that has learned a text by heart goes on with it, also beyond its window.
TEST_F(Generate, FollowsWhatWasLearned) {
  TrainConfig learns = config({{"method", "unit"}, {"steps", "150"}, {"masked", "0"}});
  std::string text;
  while (text.size() < 2000) text += "abcdefgh";
  learns.train_text = write("cycle.txt", text);
  train(learns, {.folder = run_folder()});
  EXPECT_EQ(text_of({.prompt = "cde", .length = 40, .temperature = 0}),
            std::string("cde") + text.substr(5, 40));
}

TEST_F(Generate, UnknownCharactersAreNamedBeforeAnythingIsShown) {
  train(config(), {.folder = run_folder()});
  std::string shown;
  Checkpoint checkpoint = latest_checkpoint(run_folder() / "checkpoints");
  Session session(checkpoint, nullptr);
  auto show = [&](std::string_view piece) { shown += piece; };
  EXPECT_NE(error_of([&] { generate(session, {.prompt = "the Ω"}, show); }).find("U+03A9"),
            std::string::npos);
  for (double temperature : {-1.0, double{NAN}, double{INFINITY}}) {
    EXPECT_NE(error_of([&] {
                generate(session, {.temperature = temperature}, show);
              }).find("temperature: expected"),
              std::string::npos);
  }
  EXPECT_EQ(shown, "");
}

}  // namespace
}  // namespace sigma1
