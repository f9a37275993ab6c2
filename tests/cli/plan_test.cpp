#include "tests/cli/train_run.h"

namespace sigma1 {
namespace {

class Plan : public TrainRun {
 protected:
  static Words plan(const Words& more) {
    Words words{"plan", "--set", "depth=1", "width=16", "batch=2", "time=64"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(Plan, SaysWhatAStepWouldTake) {
  nlohmann::json all = json_from(plan({"--gpus", "1,8,64", "--step-time", "0.01", "--near", "1e9",
                                       "--far", "1e8", "--memory", "1e9"}));
  ASSERT_EQ(all["plans"].size(), 3U);
  EXPECT_EQ(all["batch_seconds"], 0.01);
  EXPECT_EQ(all["plans"][0]["efficiency"], 1);
  EXPECT_EQ(all["plans"][1]["far_bytes"], 0);
  EXPECT_LT(all["plans"][2]["efficiency"], all["plans"][1]["efficiency"]);
  ProgramResult text = run_program(plan({"--gpus", "8", "--flops", "1e12"}));
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_NE(text.out.find("efficiency"), std::string::npos) << text.out;
  EXPECT_EQ(lines_of(text.out).size(), 4U) << text.out;
}

TEST_F(Plan, MistakesAreOneLine) {
  expect_mistake(plan({}), {"--step-time", "--flops"});
  expect_mistake(plan({"--step-time", "1", "--flops", "1"}), {"either"});
  expect_mistake(plan({"--step-time", "1", "--gpus", "0"}), {"--gpus"});
  for (const char* wrong : {"0", "-1", "nan", "inf", "x"}) {
    for (const char* flag : {"--near", "--far", "--memory", "--node", "--sequences"}) {
      expect_mistake(plan({"--step-time", "1", flag, wrong}), {flag, "expected a positive", wrong});
    }
    expect_mistake(plan({"--step-time", wrong}), {"--step-time", "expected a positive", wrong});
    expect_mistake(plan({"--flops", wrong}), {"--flops", "expected a positive", wrong});
  }
}

}  // namespace
}  // namespace sigma1
