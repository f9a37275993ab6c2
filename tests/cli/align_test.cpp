// `sigma1 align`: what was measured, what was set, and that both models then are one.
#include "tests/cli/train_run.h"

namespace sigma1 {
namespace {

class AlignCommand : public TrainRun {
 protected:
  Words align(const Words& more = {}) const {
    Words words{"align", "char_lm", "--threads", "1", "--text", text_};
    for (const char* setting : {"depth=2", "width=16", "ffn=32", "batch=2", "time=16", "masked=4"})
      words.insert(words.end(), {"--set", setting});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(AlignCommand, TheWholeFunctionIsThePlainModels) {
  nlohmann::json json = json_from(align({"--align", "function"}));
  EXPECT_GT(json.at("correlation").at("scores"), 0.999);
  std::map<std::string, int> settings;
  for (const auto& each : json.at("settings")) {
    ++settings[each.at("setting")];
    EXPECT_FALSE(each.at("set").empty());
  }
  EXPECT_EQ(settings["weights"], 4);
  EXPECT_EQ(settings["multiplier"], 2);
}

TEST_F(AlignCommand, WithoutItTheFunctionIsAnother) {
  nlohmann::json json = json_from(align({"--align", "none"}));
  EXPECT_TRUE(json.at("settings").empty());
  EXPECT_LT(json.at("correlation").at("scores"), 0.99);
}

TEST_F(AlignCommand, PrintsATableForPeople) {
  ProgramResult result = run_program(align());
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_NE(result.out.find("layer0/weighted_add"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("scores: correlation"), std::string::npos) << result.out;
}

TEST_F(AlignCommand, ALayerWithoutTextIsRefused) {
  ProgramResult result = run_program({"align", "ffn"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("expected a model that reads text"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace sigma1
