#include "tests/cli/train_run.h"

namespace sigma1 {
namespace {

class UMupRuns : public TrainRun {
 protected:
  Words gpt(const Words& more, const std::string& name = "run") const {
    Words words{"--set", "model=gpt", "--parametrization", "u-mup"};
    words.insert(words.end(), more.begin(), more.end());
    return train(words, name);
  }
};

TEST_F(UMupRuns, EitherBlockIsTrainedEvaluatedAndResumed) {
  for (const char* block : {"gpt2", "llama"}) {
    ProgramResult result =
        run_program(gpt({"--set", std::string("block=") + block, "--precision", "fp8"}, block));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::vector<nlohmann::ordered_json> lines = metrics(block);
    EXPECT_LT(lines.back()["valid_loss"], lines.front()["loss"].get<double>() - 0.2) << block;
    EXPECT_EQ(json_from({"eval", run(block)})["bpc"], lines.back()["valid_bpc"]);
    EXPECT_EQ(run_program(resume(block)).exit_code, 0);
  }
}

TEST_F(UMupRuns, MistakesAreOneLine) {
  expect_mistake(train({"--parametrization", "u-mup"}), {"u-mup", "gpt", "'char_lm'"});
  expect_mistake(train({"--parametrization", "mup"}), {"parametrization", "'mup'"});
  expect_mistake(gpt({"--method", "none"}), {"u-mup", "method unit"});
  expect_mistake(gpt({"--set", "optimiser=sgd"}), {"u-mup", "sgd"});
  expect_mistake(gpt({"--set", "weight-decay=0.1"}), {"weight-decay", "adamw"});
  expect_mistake(gpt({"--set", "loss-multiplier=0"}), {"loss-multiplier", "0"});
  expect_mistake(train({"--set", "model=gpt", "--set", "residual-multiplier=2"}),
                 {"residual-multiplier", "u-mup"});
}

}  // namespace
}  // namespace sigma1
