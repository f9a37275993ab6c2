// A program is started with its streams closed, or full, by schedulers and scripts: what it prints
// must not end up in its own files, and what was lost must not pass for success.
#include "tests/cli/train_run.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

class Streams : public TrainRun {
 protected:
  // The program by a shell that sends its streams elsewhere.
  static ProgramResult redirected(const std::string& redirection, const Words& arguments) {
    Words words{"/bin/sh", "-c", "exec \"$@\" " + redirection, "sh", SIGMA1_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return run_any_program(words);
  }
};

TEST_F(Streams, ClosedTheyAreNotTakenForFilesOfTheRun) {
  ASSERT_NE(run_program(train(saturating(), "whole")).err, "");  // there is something to print
  for (const char* closed : {"2>&-", ">&- 2>&-", "<&- >&- 2>&-"}) {
    fs::remove_all(run());
    redirected(closed, train(saturating()));
    EXPECT_TRUE(metrics() == metrics("whole")) << closed;
    for (const char* file : {"scales.jsonl", "monitor.jsonl", "events.jsonl"}) {
      EXPECT_TRUE(content(file) == content(file, "whole")) << closed << " " << file;
    }
  }
}

TEST_F(Streams, WhatCannotBePrintedIsAnError) {
  for (const Words& arguments : {Words{"formats"}, {"--help"}, {"--version"}, {"formats", "-h"}}) {
    for (const char* lost : {">&-", "> /dev/full", ">&- 2>&-", "> /dev/full 2> /dev/full"}) {
      EXPECT_EQ(redirected(lost, arguments).exit_code, 2) << arguments.front() << lost;
    }
  }
}

}  // namespace
}  // namespace sigma1
