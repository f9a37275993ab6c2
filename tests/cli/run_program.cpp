// No shell in between: what a test passes is, byte for byte, what the program gets.
#include "tests/cli/run_program.h"

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <sstream>
#include <system_error>
#include <thread>

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

int exit_code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status); }

}  // namespace

struct RunningProgram::Streams {
  StreamFile in, out, err;
};

RunningProgram::RunningProgram(const std::vector<std::string>& arguments, const std::string& input,
                               Which which)
    : streams_(new Streams{StreamFile(input), StreamFile(), StreamFile()}) {
  std::vector<std::string> words;
  if (which == Which::ours) words.emplace_back(SIGMA1_PROGRAM);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, streams_->in.descriptor(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, streams_->out.descriptor(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, streams_->err.descriptor(), STDERR_FILENO);
  int error = posix_spawn(&child_, argv.front(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  check(error, words.front().c_str());
}

RunningProgram::~RunningProgram() {
  if (exit_code_) return;
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

void RunningProgram::send(int signal) {
  if (!has_ended()) kill(child_, signal);
}

bool RunningProgram::has_ended() {
  int status = 0;
  if (!exit_code_ && waitpid(child_, &status, WNOHANG) == child_) exit_code_ = exit_code_of(status);
  return exit_code_.has_value();
}

ProgramResult RunningProgram::wait() {
  int status = 0;
  while (!exit_code_) {
    if (waitpid(child_, &status, 0) == child_)
      exit_code_ = exit_code_of(status);
    else if (errno != EINTR)
      check(errno, "waitpid");
  }
  return {*exit_code_, streams_->out.read(), streams_->err.read()};
}

ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& input) {
  return RunningProgram(arguments, input).wait();
}

ProgramResult run_any_program(const std::vector<std::string>& words) {
  return RunningProgram(words, "", RunningProgram::Which::any).wait();
}

std::string printed_on_terminal(const std::vector<std::string>& arguments) {
  std::string line = SIGMA1_PROGRAM;
  for (const std::string& each : arguments) line += " '" + each + "'";
  return run_any_program({"/usr/bin/script", "--quiet", "--return", "--command", line, "/dev/null"})
      .out;
}

ProgramResult signal_program(const std::vector<std::string>& arguments, int signal,
                             const std::function<bool()>& ready) {
  RunningProgram program(arguments);
  while (!program.has_ended() && !ready()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  program.send(signal);
  return program.wait();
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
