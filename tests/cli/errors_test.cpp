// A mistake must cost a person one glance and a script one exit code: status 2, nothing on stdout
// that could pass for a result, and one line that names what is wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "sigma1/backend/devices.h"
#include "sigma1/base/communicator.h"
#include "tests/cli/run_program.h"

namespace sigma1 {
namespace {

using Words = std::vector<std::string>;

struct Mistake {
  Words arguments;
  Words named;  // what the one line must mention
  std::string input = {};
};

void expect_one_line(const Mistake& mistake) {
  SCOPED_TRACE(testing::PrintToString(mistake.arguments));
  ProgramResult result = run_program(mistake.arguments, mistake.input);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(result.err.starts_with("sigma1: ")) << result.err;
  EXPECT_TRUE(result.err.ends_with('\n')) << result.err;
  EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
  for (const std::string& word : mistake.named) {
    EXPECT_NE(result.err.find(word), std::string::npos) << result.err << "does not say " << word;
  }
}

TEST(Errors, Format) {
  const Mistake mistakes[] = {
      {{"formats", "fp8_e4n3"}, {"fp8_e4n3", "fp8_e4m3?"}},
      {{"quantize", "--format", "bf61", "1"}, {"bf61", "bf16?"}},
      {{"snr", "--formats", "fp16,itn8"}, {"itn8", "int8?"}},
      {{"formats", "zzzzzzzz"}, {"zzzzzzzz"}},
      {{"formats", "e9m9"}, {"e9m9", "8 exponent"}},
      {{"quantize", "--format", "e8m24", "1"}, {"e8m24", "23 mantissa"}},
      {{"snr", "--formats", "int8:x"}, {"int8:x"}},
  };
  std::ranges::for_each(mistakes, expect_one_line);
}

TEST(Errors, Sigma) {
  expect_one_line({{"snr", "--sigma", "2^2:2^-2"}, {"--sigma", "2^2", "2^-2"}});
  for (const char* sigma :
       {"0", "-1", "x", "nan", "inf", "", "0:1", "1:x", "1:inf", "1:", "1:2:4", "nan:1", "1:nan"}) {
    expect_one_line({{"snr", "--sigma", sigma}, {"--sigma", fmt::format("'{}'", sigma)}});
  }
}

TEST(Errors, Value) {
  const Mistake mistakes[] = {
      {{"quantize", "-f", "fp16", "1", "twelve"}, {"twelve"}},
      {{"quantize", "-f", "fp16", ""}, {"''"}},
      {{"quantize", "-f", "fp16", "--json"}, {"1,5"}, "1 1,5 2"},
      {{"quantize", "-f", "fp4_e2m1", "nan"}, {"fp4_e2m1", "NaN"}},
      {{"quantize", "-f", "int8"}, {"int8", "NaN"}, "1 nan"},
  };
  std::ranges::for_each(mistakes, expect_one_line);
}

TEST(Errors, Option) {
  const Mistake mistakes[] = {
      {{"quantize", "1"}, {"--format"}},
      {{"quantize", "1", "--format"}, {"--format"}},
      {{"quantize", "-f", "fp8_e4m3", "--overflow", "infinity", "1"}, {"fp8_e4m3", "infinity"}},
      {{"quantize", "-f", "fp4_e2m1", "--overflow", "nan", "1"}, {"fp4_e2m1", "NaN"}},
      {{"quantize", "-f", "fp16", "--overflow", "clip", "1"}, {"overflow", "clip", "saturate"}},
      {{"quantize", "-f", "fp16", "--rounding", "up", "1"}, {"rounding", "up", "toward-zero"}},
      {{"quantize", "-f", "int8", "--scale", "0", "1"}, {"scale", "0"}},
      {{"quantize", "-f", "int8", "--scale", "-1", "1"}, {"scale", "-1"}},
      {{"quantize", "-f", "int8", "--scale", "big", "1"}, {"big"}},
      {{"quantize", "-f", "int8", "--seed", "x", "1"}, {"--seed", "x"}},
      {{"quantize", "-f", "fp16", "1", "--nope"}, {"--nope"}},
      {{"formats", "--nope"}, {"--nope"}},
      {{"snr", "--nope"}, {"--nope"}},
      {{"snr", "surplus"}, {"surplus"}},
  };
  std::ranges::for_each(mistakes, expect_one_line);
}

TEST(Errors, Command) {
  const Mistake mistakes[] = {
      {{}, {"subcommand"}},
      {{"quantise", "-f", "fp16"}, {"quantise", "quantize?"}},
      {{"sn"}, {"'sn'", "snr?"}},
      {{"zzzzzzzz"}, {"zzzzzzzz", "--help"}},
      {{"--nope", "formats"}, {"--nope"}},
      {{"bench", "cpus"}, {"'cpus'", "cpu?", "sigma1 bench --help"}},
      {{"squad", "zzzzzzzz"}, {"zzzzzzzz", "sigma1 squad --help"}},
      {{"bench", "--nope"}, {"--nope", "sigma1 bench --help"}},
  };
  std::ranges::for_each(mistakes, expect_one_line);
}

// What a file holds must not move the cursor of a person's terminal.
TEST(Errors, ControlCharactersAreNotPrinted) {
  ProgramResult result = run_program({"formats", "a\x1b[2J\r\n\tb"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(std::ranges::count_if(result.err, [](unsigned char c) { return c < ' '; }), 1);
  EXPECT_TRUE(result.err.ends_with('\n')) << result.err;
}

// With no command either, it is still the flag that a person has to mend.
TEST(Errors, UnknownFlagWithoutACommand) { expect_one_line({{"--nope"}, {"--nope"}}); }

TEST(Errors, FigureThatCannotBeWrittenLeavesNothing) {
  namespace fs = std::filesystem;
  fs::path missing = fs::path(testing::TempDir()) / ("sigma1_cli_" + std::to_string(getpid()));
  for (const std::string& path : {missing.string() + "/figure.svg", std::string("/dev/full")}) {
    expect_one_line({{"snr", "--svg", path}, {path}});
  }
  EXPECT_FALSE(fs::exists(missing));
  expect_one_line({{"snr", "--svg", missing, "--sigma", "1"}, {"--svg", "--sigma"}});
  expect_one_line({{"snr", "--svg", missing, "--formats", "fp99"}, {"fp99"}});
  EXPECT_FALSE(fs::exists(missing));
}

TEST(Help, ShowsAnExample) {
  const Words cases[] = {{"--help"},          {"formats", "--help"}, {"quantize", "--help"},
                         {"snr", "--help"},   {"bench", "--help"},   {"bert", "--help"},
                         {"squad", "--help"}, {"sweep", "--help"}};
  for (const Words& arguments : cases) {
    ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_EQ(result.err, "");
    EXPECT_NE(result.out.find("Usage: sigma1"), std::string::npos) << result.out;
    size_t examples = result.out.find("Example");
    ASSERT_NE(examples, std::string::npos) << result.out;
    if (arguments.size() == 1) continue;
    EXPECT_NE(result.out.find("sigma1 " + arguments.front(), examples), std::string::npos)
        << result.out;
  }
}

TEST(Version, NamesTheProgramAndWhatItWasBuiltWith) {
  ProgramResult result = run_program({"--version"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_TRUE(result.out.starts_with("sigma1 ")) << result.out;
  EXPECT_EQ(lines_of(result.out).size(), 1U);
  for (auto [name, has] :
       {std::pair{"MPI", has_mpi()}, {"CUDA", has_cuda()}, {"NCCL", has_nccl()}}) {
    EXPECT_EQ(result.out.find(name) != std::string::npos, has) << result.out;
  }
}

}  // namespace
}  // namespace sigma1
