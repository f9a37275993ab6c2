// Files of tokens that are no characters, from the command line's side.
#include "sigma1/data/token_file.h"
#include "tests/cli/train_run.h"

namespace sigma1 {
namespace {

class TokenRuns : public TrainRun {
 protected:
  // A text that is no UTF-8, and with something to learn.
  std::string bytes_file() { return write("bytes.raw", "\xFF" + tiny_text()); }

  std::string token_file() {
    std::vector<uint16_t> ids;
    for (int i = 0; i < 3000; ++i) ids.push_back(static_cast<uint16_t>(i % 7 * 30));
    std::string path = folder_ / "ids.bin";
    write_token_file(path, ids);
    return path;
  }
};

TEST_F(TokenRuns, BytesOfAnyFileAreTrainedEvaluatedAndGenerated) {
  std::string file = bytes_file();
  ProgramResult result = run_program(train({"--train", file, "--set", "tokens=bytes"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find(" bits per byte on 400 bytes"), std::string::npos) << result.out;
  EXPECT_EQ(json_from({"eval", run()})["bpc"].get<double>(),
            metrics().back()["valid_bpc"].get<double>());
  EXPECT_EQ(run_program({"eval", run(), write("other.raw", "\xC3\x28")}).exit_code, 0);
  ProgramResult text = run_program({"generate", run(), "--prompt", "\xFFthe", "--length", "5"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_TRUE(text.out.starts_with("\xFFthe")) << text.out;
  EXPECT_EQ(text.out.size(), 4 + 5 + 1U);
  EXPECT_EQ(run_program(resume()).exit_code, 0);
}

TEST_F(TokenRuns, IdsAreTrainedEvaluatedAndGeneratedAsNumbers) {
  ProgramResult result = run_program(
      train({"--train", token_file(), "--set", "vocabulary=200", "--set", "model=gpt"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find(" bits) per token on 300 tokens"), std::string::npos) << result.out;
  EXPECT_EQ(json_from({"eval", run()})["loss"], metrics().back()["valid_loss"]);
  ProgramResult text = run_program({"generate", run(), "--prompt", "0 30", "--length", "3"});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  std::istringstream numbers(text.out);
  std::vector<int> ids;
  for (int id; numbers >> id;) ids.push_back(id);
  ASSERT_EQ(ids.size(), 5U) << text.out;
  EXPECT_EQ(ids[1], 30);
  for (int id : ids) EXPECT_LT(id, 200);
  expect_mistake({"generate", run(), "--prompt", "the"}, {"'the'"});
  expect_mistake({"generate", run(), "--prompt", "200"}, {"below 200"});
  expect_mistake({"eval", run(), write("odd.bin", "abc")}, {"odd.bin", "byte 2"});
}

TEST_F(TokenRuns, MistakesAreOneLine) {
  expect_mistake(train({"--train", write("bad.bin", "abc")}), {"bad.bin", "byte 2"});
  expect_mistake(train({"--train", write("bad.bin", "\xFF\xFF")}), {"bad.bin", "65535", "byte 0"});
  expect_mistake(train({"--set", "tokens=words"}), {"tokens", "'words'"});
  expect_mistake(train({"--train", token_file(), "--set", "vocabulary=70000"}), {"vocabulary"});
  expect_mistake(train({"--set", "vocabulary=-1"}), {"vocabulary", "-1"});
  expect_mistake({"tokens", folder_ / "no.txt", "--out", folder_ / "o.bin"}, {"no.txt"});
  expect_mistake({"tokens", text_, "--as", "words", "--out", folder_ / "o.bin"}, {"words"});
  std::vector<std::string> pieces{"tokens",          text_,  "--out",
                                  folder_ / "o.bin", "--as", "word-pieces"};
  expect_mistake(pieces, {"--vocab"});
  pieces.insert(pieces.end(), {"--vocab", write("empty.txt", "a\nb\n")});
  expect_mistake(pieces, {"empty.txt", "[UNK]"});
  std::string many = "[UNK]\n";
  for (int i = 0; i < 1 << 16; ++i) many += fmt::format("word{}\n", i);
  pieces.back() = write("many.txt", many);
  expect_mistake(pieces, {"many.txt", "65537"});
  expect_mistake({"tokens", text_, "--vocab", "v.txt", "--out", folder_ / "o.bin"}, {"--vocab"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "o.bin"));
}

TEST_F(TokenRuns, WordPiecesOfATextAreIdsToTrainOn) {
  std::string vocabulary = write("vocab.txt", "[UNK]\nthe\nThe\ncat\n##s\nsat\n.\n");
  std::string text = write("cats.txt", "The cats sat.\n\nthe dog\n"), made = folder_ / "made.bin";
  std::vector<std::string> arguments{"tokens",  text,       "--as",  "word-pieces",
                                     "--vocab", vocabulary, "--out", made};
  ProgramResult result = run_program(arguments);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("7 tokens; train with --train " + made + " --set vocabulary=7"),
            std::string::npos)
      << result.out;
  EXPECT_EQ(read_token_file(made, 7), (std::vector<uint16_t>{1, 3, 4, 5, 6, 1, 0}));
  arguments.push_back("--cased");
  ASSERT_EQ(run_program(arguments).exit_code, 0);
  EXPECT_EQ(read_token_file(made, 7).front(), 2);
}

// The same bytes, read from the text and from the file made of it.
TEST_F(TokenRuns, AFileMadeOfATextTrainsAsTheText) {
  std::string file = bytes_file(), made = folder_ / "made.bin";
  ASSERT_EQ(run_program({"tokens", file, "--as", "bytes", "--out", made}).exit_code, 0);
  ASSERT_EQ(run_program(train({"--train", file, "--set", "tokens=bytes"}, "a")).exit_code, 0);
  ASSERT_EQ(run_program(train({"--train", made, "--set", "vocabulary=256"}, "b")).exit_code, 0);
  EXPECT_TRUE(metrics("a") == metrics("b"));
}

}  // namespace
}  // namespace sigma1
