// `sigma1 report`: runs as one page to look at, to compare and to pass on.
#include "sigma1/report/run_report.h"

#include <fmt/format.h>

#include "sigma1/base/file.h"
#include "tools/sigma1/commands.h"

namespace sigma1 {
namespace {

struct Options {
  std::vector<std::string> runs;
  std::string out = "report.html", title;
};

void run(Options options) {
  std::vector<std::filesystem::path> folders(options.runs.begin(), options.runs.end());
  bool is_one = folders.size() == 1;
  if (options.title.empty())
    options.title = is_one ? "Training run" : fmt::format("{} training runs", folders.size());
  std::string page = run_report(folders, options.title);
  write_file(options.out, page);
  fmt::print("{}: {} run{}, {:.1f} MB\n", options.out, folders.size(), is_one ? "" : "s",
             static_cast<double>(page.size()) / 1e6);
}

}  // namespace

void add_report(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("report", "Show runs in one page for a browser");
  command->add_option("run", options->runs, "Folders of runs")->required();
  command->add_option("-o,--out", options->out, "File to write")->capture_default_str();
  command->add_option("--title", options->title, "Heading of the page");
  command->footer(
      "Loss curves, the scale of every tensor, histograms and events, in one file that needs no\n"
      "network.\n\n"
      "Examples:\n"
      "  sigma1 report runs/a\n"
      "  sigma1 report runs/a runs/b -o compare.html --title \"Unit scaling in FP8\"");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
