// From a real run to a page.
#include <gtest/gtest.h>

#include "sigma1/base/file.h"
#include "tests/cli/run_program.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

class ReportProgram : public TemporaryFolderTest {
 protected:
  std::string train(const std::string& name, const std::vector<std::string>& more = {}) {
    std::string text = "a text to be learned; ";
    for (int i = 0; i < 6; ++i) text += text;
    std::string run = folder_ / name;
    std::vector<std::string> words{"train",
                                   "--train",
                                   write("text.txt", text),
                                   "--run",
                                   run,
                                   "--set",
                                   "width=16",
                                   "ffn=32",
                                   "depth=1",
                                   "time=16",
                                   "batch=2",
                                   "masked=4",
                                   "steps=3",
                                   "evaluate-limit=64"};
    words.insert(words.end(), more.begin(), more.end());
    ProgramResult result = run_program(words);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return run;
  }
};

TEST_F(ReportProgram, WritesAPageOfRuns) {
  std::string a = train("a"), b = train("b"), page = folder_ / "page.html";
  ProgramResult result = run_program({"report", a, b, "-o", page, "--title", "A <title>"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(result.out.starts_with(page + ": 2 runs, ")) << result.out;
  EXPECT_EQ(lines_of(result.out).size(), 1U);
  std::string content = read_file(page);
  EXPECT_NE(content.find("<h1>A &lt;title&gt;</h1>"), std::string::npos);
  EXPECT_NE(content.find("\"name\":\"b\""), std::string::npos);
}

TEST_F(ReportProgram, ShowsTheTensorsAndEventsOfARun) {
  std::string run = train("a", {"monitor-every=1", "underflow-limit=0", "method=none"});
  std::string page = folder_ / "page.html";
  ASSERT_EQ(run_program({"report", run, "-o", page}).exit_code, 0);
  std::string content = read_file(page);
  auto shows = [&](const std::string& json) { return content.find(json) != std::string::npos; };
  std::ifstream scales(std::filesystem::path(run) / "scales.jsonl");
  std::string line;
  ASSERT_TRUE(std::getline(scales, line));
  nlohmann::json first = nlohmann::json::parse(line);
  for (const auto& tensor : first["tensors"]) {
    EXPECT_TRUE(shows(tensor["name"].dump())) << tensor["name"];
  }
  std::ifstream events(std::filesystem::path(run) / "events.jsonl");
  int64_t count = 0;
  for (; std::getline(events, line); ++count) {
    EXPECT_TRUE(shows(nlohmann::json::parse(line)["text"].dump())) << line;
  }
  EXPECT_GT(count, 0);
  nlohmann::json machine =
      nlohmann::json::parse(read_file(std::filesystem::path(run) / "machine.json"));
  EXPECT_TRUE(shows(machine["processor"].dump())) << machine;
}

TEST_F(ReportProgram, NamesMistakesAndLeavesThePageThatWasThere) {
  std::string run = train("a"), page = write("page.html", "old");
  for (const auto& [words, told] :
       {std::pair<std::vector<std::string>, std::string>{{"report"}, "run"},
        {{"report", folder_ / "none", "-o", page}, "expected a run's folder"},
        {{"report", run, run, "-o", page}, "given twice"},
        {{"report", run, "-o", folder_ / "no/page.html"}, "cannot write"}}) {
    ProgramResult result = run_program(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.err.find(told), std::string::npos) << result.err;
    EXPECT_EQ(lines_of(result.err).size(), 1U);
  }
  EXPECT_EQ(read_file(page), "old");
}

}  // namespace
}  // namespace sigma1
