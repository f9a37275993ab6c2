// Models leave the program and come back as a person would have them do it.
#include "sigma1/exchange/transformers_bert.h"
#include "tests/cli/train_run.h"
#include "tests/exchange/bert_example.h"

namespace sigma1 {
namespace {

class Exchange : public TrainRun {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
};

TEST_F(Exchange, ABertComesInAndGoesOutAsItWas) {
  write_transformers_bert(path("theirs"), bert_example(bert_config("bert", "none")),
                          bert_vocabulary());
  for (const char* method : {"none", "unit"}) {
    std::string ours = path(std::string("ours_") + method),
                back = path(std::string("to_") + method);
    ProgramResult in = run_program(
        {"import", path("theirs"), "--out", ours, "--method", method, "--precision", "fp32"});
    ASSERT_EQ(in.exit_code, 0) << in.err;
    ProgramResult out =
        run_program({"export", ours, "--vocab", path("theirs/vocab.txt"), "--out", back});
    ASSERT_EQ(out.exit_code, 0) << out.err;
    EXPECT_EQ(read_file(back + "/config.json"), read_file(path("theirs/config.json")));
    EXPECT_EQ(read_file(back + "/vocab.txt"), bert_vocabulary());
    SafetensorsFile before(path("theirs/model.safetensors")), after(back + "/model.safetensors");
    ASSERT_EQ(before.tensors().size(), after.tensors().size());
    for (const StoredTensor& tensor : before.tensors()) {
      std::vector<float> expected = tensor_numbers(tensor, "before");
      std::vector<float> found = tensor_numbers(after.at(tensor.name), "after");
      ASSERT_EQ(expected.size(), found.size());
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 1e-6 * std::abs(expected[i])) << tensor.name;
    }
  }
}

TEST_F(Exchange, ATrainedModelBecomesOnnx) {
  ASSERT_EQ(run_program(train({"--set", "steps=1"})).exit_code, 0);
  ProgramResult result = run_program(
      {"export", run(), "--format", "onnx", "--out", path("model.onnx"), "--batch", "3"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  std::string file = read_file(path("model.onnx"));
  for (const char* name : {"LayerNormalization", "scores", "layer0/attention/query/weight"})
    EXPECT_NE(file.find(name), std::string::npos) << name;
}

TEST_F(Exchange, MistakesAreOneLine) {
  ASSERT_EQ(run_program(train({"--set", "steps=1"})).exit_code, 0);
  expect_mistake({"export", run(), "--out", path("out")}, {"bert", "'char_lm'"});
  expect_mistake({"export", run(), "--format", "pickle", "--out", path("out")}, {"'pickle'"});
  expect_mistake({"export", path("nowhere"), "--out", path("out")}, {"nowhere"});
  expect_mistake({"import", path("nowhere"), "--out", path("out")}, {"nowhere"});
  expect_mistake({"import", path("nowhere"), "--model", "gpt", "--out", path("out")}, {"'gpt'"});
  expect_mistake({"import", path("nowhere"), "--out", run()}, {"--out", "without checkpoints"});
}

}  // namespace
}  // namespace sigma1
