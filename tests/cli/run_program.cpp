// No shell in between: what a test passes is, byte for byte, what the program gets.
#include "tests/cli/run_program.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <sstream>
#include <system_error>

namespace sigma1 {
namespace {

// Files rather than pipes for the three streams: they never fill up, so nobody waits for anybody,
// and a program that leaves its input unread breaks nothing.
class StreamFile {
 public:
  explicit StreamFile(const std::string& content = "") : file_(std::tmpfile(), &std::fclose) {
    if (!file_) throw std::system_error(errno, std::generic_category(), "tmpfile");
    std::fwrite(content.data(), 1, content.size(), file_.get());
    std::rewind(file_.get());
  }

  [[nodiscard]] int descriptor() const { return fileno(file_.get()); }

  std::string read() {
    std::rewind(file_.get());
    std::string content;
    for (int c = 0; (c = std::fgetc(file_.get())) != EOF;) content += static_cast<char>(c);
    return content;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

void check(int error, const char* what) {
  if (error != 0) throw std::system_error(error, std::generic_category(), what);
}

int exit_code_of(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) check(errno, "waitpid");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& input) {
  std::vector<std::string> words{SIGMA1_PROGRAM};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  StreamFile in(input), out, err;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.descriptor(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.descriptor(), STDERR_FILENO);
  pid_t child = 0;
  int error = posix_spawn(&child, SIGMA1_PROGRAM, &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  check(error, SIGMA1_PROGRAM);
  int exit_code = exit_code_of(child);
  return {exit_code, out.read(), err.read()};
}

nlohmann::json json_from(std::vector<std::string> arguments, const std::string& input) {
  arguments.emplace_back("--json");
  ProgramResult result = run_program(arguments, input);
  EXPECT_EQ(result.exit_code, 0) << testing::PrintToString(arguments);
  EXPECT_EQ(result.err, "") << testing::PrintToString(arguments);
  auto json = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << result.out;
  return json.is_discarded() ? nlohmann::json() : json;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

}  // namespace sigma1
