#include "sigma1/train/step_log.h"

#include <fmt/format.h>

#include "sigma1/base/error.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

class StepLogTest : public TemporaryFolderTest {
 protected:
  std::filesystem::path path() { return folder_ / "log.jsonl"; }
  void run(int64_t from, int64_t to) {
    StepLog log(path(), from);
    for (int64_t step = from + 1; step <= to; ++step) {
      log.append(fmt::format("{{\"step\":{},\"loss\":{}}}", step, 1 / double(step + 3)));
    }
  }
};

TEST_F(StepLogTest, ALineIsThereWhenAppendReturns) {
  StepLog log(path());
  log.append("{\"step\":0}");
  EXPECT_EQ(read_file(path()), "{\"step\":0}\n");
  log.append("{\"step\":7,\"tensors\":[1,2]}");
  EXPECT_EQ(read_file(path()), "{\"step\":0}\n{\"step\":7,\"tensors\":[1,2]}\n");
}

TEST_F(StepLogTest, AResumedRunEqualsAnUninterruptedOne) {
  run(-1, 20);
  std::string whole = read_file(path());
  for (int64_t resumed : {20, 19, 7, 0, -1}) {
    run(resumed, 20);
    EXPECT_EQ(read_file(path()), whole) << resumed;
  }
  for (size_t cut = 0; cut < 25; ++cut) {
    write("log.jsonl", whole.substr(0, whole.size() - cut));
    run(18, 20);
    EXPECT_EQ(read_file(path()), whole) << cut;
  }
}

// Several lines a step, not all in order: what is dropped goes by the step alone.
TEST_F(StepLogTest, KeepsEveryLineUpToTheStepResumedFrom) {
  write("log.jsonl",
        "{\"step\":1,\"a\":1}\n{\"step\":3,\"a\":1}\n{\"step\":1,\"b\":1}\n{\"step\":2}\n");
  StepLog log(path(), 2);
  EXPECT_EQ(read_file(path()), "{\"step\":1,\"a\":1}\n{\"step\":1,\"b\":1}\n{\"step\":2}\n");
}

TEST_F(StepLogTest, ALineOfAnotherKindIsNamed) {
  for (const char* line : {"loss 3", "{\"loss\":3}", "[1]", "{\"step\":1.5}", "{\"step\":", ""}) {
    write("log.jsonl", std::string("{\"step\":1}\n") + line + "\n{\"step\":2}\n");
    std::string complaint = error_of([this] { StepLog log(path(), 5); });
    EXPECT_NE(complaint.find(path().string() + ":2: expected"), std::string::npos) << complaint;
    if (*line == '\0') continue;  // who reads may find empty lines
    complaint = error_of([this] { read_step_log(path()); });
    EXPECT_NE(complaint.find(path().string() + ":2: expected"), std::string::npos) << complaint;
  }
}

TEST_F(StepLogTest, ANewRunStartsAnEmptyFile) {
  write("log.jsonl", "whatever");
  StepLog log(path());
  EXPECT_EQ(read_file(path()), "");
}

TEST_F(StepLogTest, ReadsBackStepsAndTheirText) {
  run(-1, 2);
  std::vector<StepLine> lines = read_step_log(path());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[2].step, 2);
  EXPECT_EQ(lines[2].json, "{\"step\":2,\"loss\":0.2}");
  write("log.jsonl", "");
  EXPECT_TRUE(read_step_log(path()).empty());
  write("log.jsonl", "{\"step\":1}\n{\"step\":2,\"los");
  std::string complaint = error_of([this] { read_step_log(path()); });
  EXPECT_NE(complaint.find(":2: expected"), std::string::npos) << complaint;
}

}  // namespace
}  // namespace sigma1
