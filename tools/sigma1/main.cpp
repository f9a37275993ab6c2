// The command line: hands argv to the subcommand it names and turns failure into one line on
// stderr and an exit code: 2 for what the user can mend, 70 for a bug of ours.
#include <fcntl.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "sigma1/backend/devices.h"
#include "sigma1/base/communicator.h"
#include "sigma1/base/error.h"
#include "sigma1/base/machine.h"
#include "sigma1/base/text.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/run_ranks.h"

namespace sigma1 {
namespace {

constexpr int kUserError = 2, kInternalError = 70;

// The next file to be opened would get the number of a stream that is closed, and be printed into.
void fill_closed_streams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0) continue;
    // What is printed as a result is lost, and must still be told as that: nothing can be written.
    ::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  }
}

// Nobody is left to be told where even this fails, but the exit code holds.
void print_to_stderr(const std::string& line) { std::fputs(line.c_str(), stderr); }

int complain(int exit_code, std::string text) {
  // One line, whatever was typed or read, and nothing that a terminal would obey.
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::iscntrl(c) != 0; }, ' ');
  std::fflush(stdout);
  if (launched_rank() == 0) {
    print_to_stderr(fmt::format("sigma1: {}\n", text));
    return exit_code;
  }
  // One rank tells what all find wrong. It must not be ended, as a launcher does when another has
  // left with an error, before it could.
  std::this_thread::sleep_for(std::chrono::seconds(2));
  // mpirun ends all once the first has left: it has not, so that only this one finds it wrong.
  if (std::getenv("OMPI_COMM_WORLD_RANK"))
    print_to_stderr(fmt::format("sigma1: rank {}: {}\n", launched_rank(), text));
  return exit_code;
}

// Output that was lost, on a full disk for one, must not pass for success.
void finish_output() {
  if (std::fflush(stdout) != 0)
    throw Error("cannot write to standard output: {}", std::strerror(errno));
}

// "sigma1 0.1.0 with MPI, CUDA"
std::string version_and_parts() {
  std::vector<std::string> parts;
  if (has_mpi()) parts.emplace_back("MPI");
  if (has_cuda()) parts.emplace_back("CUDA");
  if (has_nccl()) parts.emplace_back("NCCL");
  return fmt::format("sigma1 {}{}{}", version(), parts.empty() ? "" : " with ",
                     fmt::join(parts, ", "));
}

void add_commands(CLI::App& app) {
  app.set_version_flag("--version", version_and_parts());
  app.require_subcommand(1);
  app.footer(
      "`sigma1 COMMAND --help` shows a command's options and examples.\n\n"
      "Examples:\n  sigma1 formats\n  sigma1 snr --svg figure2.svg");
  add_align(app);
  add_bench(app);
  add_bert(app);
  add_demo(app);
  add_derive(app);
  add_doctor(app);
  add_evaluate(app);
  add_export(app);
  add_formats(app);
  add_generate(app);
  add_import(app);
  add_inspect(app);
  add_memory(app);
  add_ops(app);
  add_plan(app);
  add_quantize(app);
  add_report(app);
  add_scales(app);
  add_snr(app);
  add_squad(app);
  add_sweep(app);
  add_tokenize(app);
  add_tokens(app);
  add_train(app);
}

// CLI11 would answer an unknown command with what is missing; better to say what was meant.
void check_command(const CLI::App& app, std::span<char* const> words, const std::string& before) {
  std::vector<const CLI::App*> commands = app.get_subcommands({});
  if (words.empty() || commands.empty()) return;
  std::string word = words.front();
  std::vector<std::string> names;
  for (const CLI::App* command : commands) {
    names.push_back(command->get_name());
    if (word != names.back()) continue;
    return check_command(*command, words.subspan(1), fmt::format("{} {}", before, word));
  }
  bool is_flag = word.starts_with('-');
  if (is_flag && app.get_option_no_throw(word)) return;
  std::string nearest = is_flag ? "" : nearest_name(word, names);
  throw Error("unknown {} '{}'{}; `{} --help` lists all", is_flag ? "flag" : "command", word,
              nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest), before);
}

void parse(CLI::App& app, std::vector<std::string>& arguments) {
  try {
    app.parse(arguments);
  } catch (const CLI::Success& asked_for) {  // --help and --version arrive as exceptions too
    app.exit(asked_for);
    std::cout.flush();  // what it prints to
    if (!std::cout) throw Error("cannot write to standard output: {}", std::strerror(errno));
  }
}

int run(int argc, char** argv) {
  fill_closed_streams();
  CLI::App app("sigma1: training in FP16 and FP8 out of the box, by unit scaling");
  app.name("sigma1");
  add_commands(app);
  try {
    check_command(app, std::span(argv, static_cast<size_t>(argc)).subspan(1), "sigma1");
    // CLI11 wants a vector in reverse. "--" is dropped: whatever may start with a minus is taken as
    // is.
    std::vector<std::string> arguments(std::make_reverse_iterator(argv + argc),
                                       std::make_reverse_iterator(argv + 1));
    std::erase(arguments, "--");
    parse(app, arguments);
    finish_output();
    return 0;
  } catch (const CLI::ParseError& error) {
    return complain(kUserError, fmt::format("{} (see --help)", error.what()));
  } catch (const Told& told) {
    return told.exit_code;
  } catch (const Error& error) {
    return complain(kUserError, error.what());
  } catch (const std::filesystem::filesystem_error& error) {
    // Its own text tells of calls of ours before it names the file.
    return complain(kUserError,
                    fmt::format("{}: {}", error.path1().string(), error.code().message()));
  } catch (const std::system_error& error) {
    return complain(kUserError, error.what());
  } catch (const std::bad_alloc&) {
    return complain(kUserError, "not enough memory; smaller sizes may fit");
  } catch (const std::exception& error) {
    return complain(kInternalError, fmt::format("internal error: {}", error.what()));
  }
}

}  // namespace
}  // namespace sigma1

int main(int argc, char** argv) { return sigma1::run(argc, argv); }
