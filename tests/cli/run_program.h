// Only the whole program has exit codes and streams, so these tests run it as a person would.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace sigma1 {

struct ProgramResult {
  int exit_code;  // the negated signal number when the program was killed
  std::string out, err;
};

// A program that is still running, for tests that interrupt it.
class RunningProgram {
 public:
  // Ours, given its arguments; or any, named by the first of them.
  enum class Which { ours, any };
  explicit RunningProgram(const std::vector<std::string>& arguments, const std::string& input = "",
                          Which which = Which::ours);
  ~RunningProgram();  // ends it, when nobody waited
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  void send(int signal);
  bool has_ended();
  ProgramResult wait();

 private:
  struct Streams;
  std::unique_ptr<Streams> streams_;
  pid_t child_ = 0;
  std::optional<int> exit_code_;
};

ProgramResult run_program(const std::vector<std::string>& arguments, const std::string& input = "");
// A program by its path, as another that runs ours.
ProgramResult run_any_program(const std::vector<std::string>& words);

// Ours on a terminal, which takes both its streams.
std::string printed_on_terminal(const std::vector<std::string>& arguments);

// Sends the signal as soon as `ready` says so, or never, when the program ends before.
ProgramResult signal_program(const std::vector<std::string>& arguments, int signal,
                             const std::function<bool()>& ready);

// What a run that must succeed prints with --json, which is added here. A failed run is a failure
// of the test and gives null.
nlohmann::json json_from(std::vector<std::string> arguments, const std::string& input = "");

std::vector<std::string> lines_of(const std::string& text);

}  // namespace sigma1
