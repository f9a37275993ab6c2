// Training runs of the program, as tests of the command line start them.
#pragma once

#include <atomic>
#include <filesystem>
#include <string>
#include <vector>

#include "sigma1/base/file.h"
#include "tests/cli/run_program.h"
#include "tests/data/temporary_folder.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {

class TrainRun : public TemporaryFolderTest {
 protected:
  using Words = std::vector<std::string>;

  void SetUp() override {
    TemporaryFolderTest::SetUp();
    text_ = write("text.txt", tiny_text());
  }

  std::filesystem::path run(const std::string& name = "run") const { return folder_ / name; }

  // `sigma1 train` of a tiny model into a run of that name; what is in `more` counts over it.
  Words train(const Words& more = {}, const std::string& name = "run") const {
    Words words{"train", "--run", run(name), "--threads", "1", "--set", "train=" + text_};
    for (const char* setting :
         {"depth=1", "width=16", "ffn=32", "batch=2", "time=16", "masked=4", "steps=20"}) {
      words.insert(words.end(), {"--set", setting});
    }
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  Words resume(const std::string& name = "run") const {
    return {"train", "--run", run(name), "--resume", "--threads", "1"};
  }

  // The program in several ranks.
  Words mpirun(int count, const Words& arguments) const {
    // A launcher of its own folder each: those that share one remove it under each other.
    static std::atomic<int> launchers = 0;
    std::filesystem::path own = folder_ / ("mpi" + std::to_string(launchers++));
    std::filesystem::create_directories(own);
    Words words{SIGMA1_MPIRUN,
                "--quiet",
                "--oversubscribe",
                "--allow-run-as-root",
                "--mca",
                "orte_tmpdir_base",
                own,
                "-np",
                std::to_string(count),
                SIGMA1_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
  }

  // Settings under which products saturate, some but not all of them.
  static Words saturating() {
    return {"--precision",
            "fp16",
            "--set",
            "matmul=e2m2",
            "saturation-limit=0.01",
            "underflow-limit=1",
            "monitor-every=10"};
  }

  std::string content(const std::string& file, const std::string& name = "run") const {
    return read_file(run(name) / file);
  }
  // The lines of metrics.jsonl less what differs from run to run.
  std::vector<nlohmann::ordered_json> metrics(const std::string& name = "run") const {
    std::vector<nlohmann::ordered_json> lines;
    std::ifstream file(run(name) / "metrics.jsonl");
    for (std::string line; std::getline(file, line);) {
      lines.push_back(nlohmann::ordered_json::parse(line, nullptr, false));
      if (!lines.back().is_object()) continue;
      lines.back().erase("tokens_per_s");
      lines.back().erase("exchange_s");
    }
    return lines;
  }

  // Status 2, one line that says all of `named`, and nothing on stdout.
  void expect_mistake(const Words& arguments, const Words& named) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    ProgramResult result = run_program(arguments);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_TRUE(result.err.starts_with("sigma1: ")) << result.err;
    EXPECT_EQ(lines_of(result.err).size(), 1U) << result.err;
    for (const std::string& word : named) {
      EXPECT_NE(result.err.find(word), std::string::npos) << result.err << "does not say " << word;
    }
  }

  std::string text_;
};

}  // namespace sigma1
