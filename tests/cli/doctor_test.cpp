// From a model's name to words and JSON; what they say is tested with the diagnosis.
#include "tests/cli/train_run.h"

namespace sigma1 {
namespace {

using nlohmann::json;

class Doctor : public TrainRun {
 protected:
  // Wide enough that regular training in fp8 loses something.
  static Words of_model(const std::string& command, const Words& more) {
    Words words{command,    "char_lm", "--threads", "1",       "--set",   "depth=1",
                "width=64", "ffn=128", "batch=8",   "time=32", "masked=8"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static Words doctor(const Words& more = {}) { return of_model("doctor", more); }
  static const json& method(const json& diagnosis, const std::string& name) {
    for (const json& each : diagnosis.at("methods")) {
      if (each.at("method") == name) return each;
    }
    throw std::runtime_error("no method " + name);
  }
};

TEST_F(Doctor, SaysWhereBitsAreLost) {
  ProgramResult result = run_program(doctor({"--precision", "fp8", "--text", text_}));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* words :
       {"Regular training in FP8 would lose more than 1 %", "Loss scaling by 2048", "Unit scaling",
        "Matrix products to keep in 16 bits under unit scaling",
        "What unit scaling costs in one step"}) {
    EXPECT_NE(result.out.find(words), std::string::npos) << result.out << "lacks " << words;
  }
  EXPECT_FALSE(result.out.ends_with("\n\n"));
}

TEST_F(Doctor, SaysItToPrograms) {
  json diagnosis = json_from(doctor({"--precision", "fp8", "--text", text_}));
  EXPECT_EQ(diagnosis["precision"], "fp8");
  EXPECT_EQ(diagnosis["limit"], 0.01);
  ASSERT_EQ(diagnosis["methods"].size(), 3U);
  const json &regular = method(diagnosis, "none"), &unit = method(diagnosis, "unit");
  EXPECT_EQ(regular["tensors"], unit["tensors"]);
  EXPECT_GT(regular["losing"], unit["losing"]) << "unit scaling keeps what regular training loses";
  EXPECT_GT(diagnosis["cost"]["product_flops"], 0);
  // The tensors are those of `sigma1 scales`.
  json scales = json_from(of_model("scales", {"--method", "none", "--text", text_}));
  int64_t losing = 0;
  for (const json& each : scales) losing += each["lost"] > 0.01;
  EXPECT_EQ(regular["losing"], losing);
  EXPECT_EQ(regular["tensors"], scales.size());
}

TEST_F(Doctor, TheLimitIsAPercentage) {
  json all = json_from(doctor({"--limit", "0", "--method", "none", "--text", text_}));
  json few = json_from(doctor({"--limit", "90", "--method", "none", "--text", text_}));
  EXPECT_EQ(few["limit"], 0.9);
  ASSERT_EQ(all["methods"].size(), 1U) << "the one that was asked for";
  EXPECT_GT(all["methods"][0]["losing"], few["methods"][0]["losing"]);
}

TEST_F(Doctor, JudgesByThePrecision) {
  json fp8 = json_from(doctor({"--precision", "fp8", "--text", text_}));
  json fp32 = json_from(doctor({"--precision", "fp32", "--text", text_}));
  EXPECT_GT(method(fp8, "none")["losing"], 0);
  EXPECT_EQ(method(fp32, "none")["losing"], 0);
  EXPECT_EQ(method(fp32, "none")["worst"], 0);
}

TEST_F(Doctor, LooksAtLayersToo) {
  json diagnosis =
      json_from({"doctor", "ffn", "--threads", "1", "--set", "width=16", "ffn=32", "batch=4"});
  EXPECT_GT(method(diagnosis, "unit")["tensors"], 5);
}

TEST_F(Doctor, MistakesAreOneLine) {
  for (const char* limit : {"-1", "100", "nan", "inf", "x"}) {
    expect_mistake(doctor({"--limit", limit}), {"--limit", limit});
  }
  expect_mistake({"doctor", "gtp"}, {"gtp", "did you mean gpt?"});
  expect_mistake({"doctor"}, {"MODEL"});
  expect_mistake({"doctor", folder_ / "none"}, {"none", "expected"});
  expect_mistake(doctor({"--precision", "fp9"}), {"precision", "fp9"});
  expect_mistake(doctor({"--method", "units"}), {"method", "units"});
  expect_mistake(doctor({"--set", "widht=3"}), {"widht", "width?"});
}

}  // namespace
}  // namespace sigma1
