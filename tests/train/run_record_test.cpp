#include "sigma1/train/run_record.h"

#include <algorithm>

#include "sigma1/train/model_scales.h"
#include "sigma1/train/scale_log.h"
#include "tests/train/run_folder.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

class RunRecordTest : public RunFolderTest {
 protected:
  // Regular training in fp8: gradients so small that there is something to tell.
  TrainConfig losing(Settings settings = {}) {
    TrainConfig result = config({{"precision", "fp8"},
                                 {"probe", "all"},
                                 {"probe-every", "6"},
                                 {"monitor-every", "4"},
                                 {"underflow-limit", "0"}});
    for (const auto& [key, value] : settings) result.set(key, value);
    return result;
  }
  std::vector<int64_t> steps_of(const std::string& file, const std::string& run = "run") {
    std::vector<int64_t> steps;
    for (const Json& line : lines(file, run)) steps.push_back(line["step"].get<int64_t>());
    return steps;
  }
  // As "role name".
  std::set<std::string> tensors_recorded(const std::string& run = "run") {
    std::set<std::string> tensors;
    for (const Json& line : lines("scales.jsonl", run)) {
      for (const Json& each : line["tensors"]) {
        tensors.insert(each["role"].get<std::string>() + " " + each["name"].get<std::string>());
      }
    }
    return tensors;
  }
  void expect_same_records(const std::string& a, const std::string& b) {
    for (const char* file : {"scales.jsonl", "monitor.jsonl", "events.jsonl"}) {
      EXPECT_EQ(content(file, a), content(file, b)) << file;
    }
    EXPECT_EQ(lasting_metrics(a), lasting_metrics(b));
  }
  std::string last_checkpoint(const std::string& run) {
    return content("checkpoints/step-00000020.safetensors", run);
  }
};

using Steps = std::vector<int64_t>;

TEST_F(RunRecordTest, RecordsTheFirstTheLastAndEverySoManySteps) {
  train(losing(), {.folder = run_folder()});
  EXPECT_EQ(steps_of("scales.jsonl"), (Steps{0, 6, 12, 18, 20}));
  EXPECT_EQ(steps_of("monitor.jsonl"), (Steps{4, 8, 12, 16, 20}));
  train(losing({{"probe-every", "0"}, {"monitor-every", "0"}}), {.folder = run_folder("eighths")});
  EXPECT_EQ(steps_of("scales.jsonl", "eighths"), (Steps{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20}));
  EXPECT_EQ(content("monitor.jsonl", "eighths"), "");
  EXPECT_EQ(content("events.jsonl", "eighths"), "");
}

TEST_F(RunRecordTest, RecordsWhatTheProbeSeesOfTheNextStep) {
  TrainConfig config = losing();
  train(config, {.folder = run_folder()});
  Corpus corpus = load_corpus(config.train_text, "", "");
  Session session(config, corpus);
  std::vector<StepLine> recorded = read_step_log(run_folder() / "scales.jsonl");
  ASSERT_EQ(recorded.size(), 5U);
  for (const auto& [step, line] : recorded) {
    while (session.step() < step) session.train_step();
    Batch batch = batch_of(session.config(), corpus, static_cast<uint64_t>(step));
    EXPECT_EQ(line, scales_line(step, session_scales(session, session.config(), batch, {})));
  }
}

TEST_F(RunRecordTest, RecordsTheTensorsThatAreAskedFor) {
  train(losing(), {.folder = run_folder("all")});
  std::set<std::string> all = tensors_recorded("all");
  for (const char* role : {"activation ", "weight ", "gradx ", "gradw "}) {
    EXPECT_TRUE(std::ranges::any_of(all, [&](auto& name) { return name.starts_with(role); }))
        << role;
  }
  train(losing({{"probe", "gradw,activation:layer0/*"}}), {.folder = run_folder("some")});
  std::set<std::string> wanted;
  for (const std::string& each : all) {
    if (each.starts_with("gradw ") || each.starts_with("activation layer0/")) wanted.insert(each);
  }
  EXPECT_LT(wanted.size(), all.size());
  EXPECT_EQ(tensors_recorded("some"), wanted);
  EXPECT_EQ(content("monitor.jsonl", "some"), content("monitor.jsonl", "all"))
      << "what is watched does not depend on what is recorded";
}

TEST_F(RunRecordTest, NoneAndNothingSaidRecordNothing) {
  train(losing({{"probe", "none"}}), {.folder = run_folder("none")});
  train(losing({{"probe", ""}}), {.folder = run_folder("default")});
  train(losing({{"probe", ""}}), {.folder = run_folder("all"), .default_probe = "all"});
  EXPECT_EQ(content("scales.jsonl", "none"), "");
  EXPECT_EQ(content("scales.jsonl", "default"), "");
  EXPECT_EQ(steps_of("scales.jsonl", "all"), (Steps{0, 6, 12, 18, 20}));
  EXPECT_EQ(steps_of("monitor.jsonl", "none"), (Steps{4, 8, 12, 16, 20}));
}

TEST_F(RunRecordTest, LookingChangesNoBit) {
  for (const char* method : {"none", "unit", "auto-loss-scale", "per-tensor=delayed"}) {
    std::string with = std::string(method) + " with", without = std::string(method) + " without";
    TrainConfig config = losing({{"method", method}, {"accumulate", "2"}});
    train(config, {.folder = run_folder(with)});
    Checkpoint probed = latest_checkpoint(run_folder(with) / "checkpoints");
    config.probe = "none";
    config.monitor_every = 0;
    train(config, {.folder = run_folder(without)});
    Checkpoint plain = latest_checkpoint(run_folder(without) / "checkpoints");
    EXPECT_EQ(lasting_metrics(with), lasting_metrics(without)) << method;
    ASSERT_EQ(probed.file.tensors().size(), plain.file.tensors().size());
    for (const StoredTensor& tensor : probed.file.tensors()) {
      EXPECT_TRUE(std::ranges::equal(tensor.data, plain.file.at(tensor.name).data))
          << method << " " << tensor.name;
    }
  }
}

TEST_F(RunRecordTest, TellsAPersonTheWorstAndWritesAll) {
  std::vector<std::string> told;
  RunOptions options{.folder = run_folder()};
  options.warn = [&](const std::string& text) { told.push_back(text); };
  train(losing({{"monitor-every", "20"}}), options);
  std::vector<Json> events = lines("events.jsonl");
  ASSERT_GT(events.size(), 4U);
  ASSERT_EQ(told.size(), 4U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(told[i], "step 20: " + events[i]["text"].get<std::string>());
    EXPECT_NE(told[i].find("--method unit"), std::string::npos) << told[i];
  }
  EXPECT_EQ(told[3], fmt::format("step 20: and {} more, all in {}", events.size() - 3,
                                 (run_folder() / "events.jsonl").string()));
  for (size_t i = 1; i < events.size(); ++i) {
    EXPECT_LE(events[i]["share"], events[i - 1]["share"]) << "the worst come first";
  }
}

// What is told is what monitor.jsonl shows beyond the limit, each once.
TEST_F(RunRecordTest, EventsAndMonitorAgree) {
  train(losing({{"underflow-limit", "0.02"}}), {.folder = run_folder()});
  std::set<std::string> seen, told;
  for (const Json& line : lines("monitor.jsonl")) {
    for (const Json& each : line["tensors"]) {
      if (each["underflow"] > 0.02) seen.insert(each["role"].dump() + each["name"].dump());
    }
  }
  for (const Json& event : lines("events.jsonl")) {
    EXPECT_EQ(event["kind"], "underflow");
    EXPECT_TRUE(told.insert(event["role"].dump() + event["tensor"].dump()).second) << event;
  }
  EXPECT_GT(told.size(), 0U);
  EXPECT_EQ(told, seen);
}

TEST_F(RunRecordTest, AStoppedAndResumedRunLeavesTheSameRecords) {
  TrainConfig config = losing();
  train(config, {.folder = run_folder("whole")});
  ASSERT_FALSE(content("events.jsonl", "whole").empty());
  for (int first : {1, 4, 6, 12}) {  // also right after a look
    fs::remove_all(run_folder());
    run_some(config, false, first);
    run_some(run_config(run_folder()), true, 3);
    train(run_config(run_folder()), {.folder = run_folder(), .resume = true});
    expect_same_records("run", "whole");
    EXPECT_EQ(last_checkpoint("run"), last_checkpoint("whole"));
  }
  train(run_config(run_folder()), {.folder = run_folder(), .resume = true});
  expect_same_records("run", "whole");
}

// The program may end after steps that no checkpoint has.
TEST_F(RunRecordTest, WhatWasWrittenAfterTheCheckpointIsWrittenAnew) {
  TrainConfig config = losing({{"checkpoint-every", "5"}, {"keep", "9"}});
  train(config, {.folder = run_folder("whole")});
  train(config, {.folder = run_folder()});
  constexpr int64_t kSaved[] = {20, 15, 10, 5};
  for (int64_t lost : kSaved) {
    for (int64_t step : kSaved) {
      if (step >= lost) fs::remove(checkpoint_path(run_folder() / "checkpoints", step));
    }
    train(run_config(run_folder()), {.folder = run_folder(), .resume = true});
    expect_same_records("run", "whole");
  }
}

}  // namespace
}  // namespace sigma1
