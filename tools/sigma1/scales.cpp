// `sigma1 scales`: every tensor of one forward and backward pass, its scale, and what a format
// would lose of it; the methods side by side, and the end of training beside its start.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "sigma1/backend/devices.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/base/parallel.h"
#include "sigma1/base/text.h"
#include "sigma1/report/json_lines.h"
#include "sigma1/report/recorded_scales.h"
#include "sigma1/report/scale_figures.h"
#include "sigma1/train/scale_log.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"
#include "tools/sigma1/scale_source.h"

namespace sigma1 {
namespace {

struct Options {
  std::string source, format, filter = "all", svg, device = "auto";
  SettingOptions settings;
  int64_t train_steps = 0;
  size_t rows = 40;
  bool json = false, recorded = false;
  int threads = 0;
};

// One measurement of all tensors: a method, at the start or the end.
struct View {
  std::string method, when;
  const std::vector<TensorScale>* tensors;
};

std::vector<View> views_of(const std::vector<MeasuredMethod>& measured) {
  std::vector<View> views;
  for (const MeasuredMethod& each : measured) {
    views.push_back({each.method, each.first, &each.start});
    if (!each.end.empty()) views.push_back({each.method, each.last, &each.end});
  }
  return views;
}

std::string percent(double share) {
  return share == 0 ? "0" : share < 5e-5 ? "<0.01" : fmt::format("{:.2f}", 100 * share);
}

std::string number(double value) { return value == 0 ? "0" : fmt::format("{:.3g}", value); }

void print_one(const std::vector<TensorScale>& tensors) {
  Table table({"tensor", "role", "format", "std", "rms", "max", "min", "zero %", "subnormal %",
               "saturated %", "nonfinite %", "lost %"});
  for (const TensorScale& each : tensors) {
    table.add({each.name, std::string(to_string(each.role)), each.format,
               number(each.stats.std_dev()), number(each.stats.rms()), number(each.stats.abs_max),
               number(each.stats.abs_min), percent(each.zero()), percent(each.subnormal()),
               percent(each.saturated()), percent(each.nonfinite()), percent(each.lost())});
  }
  table.print();
}

// Rows are the first view's tensors; a tensor that another lacks leaves its cells empty.
void print_side_by_side(const std::vector<View>& views) {
  std::vector<std::string> headings{"tensor", "role", "format"};
  bool drifts = views[0].method == views[1].method;
  for (const View& view : views) {
    std::string title = drifts ? view.method + " " + view.when : view.method;
    headings.push_back(title + ": std");
    headings.push_back("lost %");
  }
  Table table(headings);
  using Key = std::pair<TensorRole, std::string>;
  std::vector<std::map<Key, const TensorScale*>> found(views.size());
  for (size_t v = 0; v < views.size(); ++v) {
    for (const TensorScale& each : *views[v].tensors) found[v][{each.role, each.name}] = &each;
  }
  for (const TensorScale& row : *views.front().tensors) {
    std::vector<std::string> cells{row.name, std::string(to_string(row.role)), row.format};
    for (const auto& column : found) {
      auto at = column.find({row.role, row.name});
      bool there = at != column.end();
      cells.push_back(there ? number(at->second->stats.std_dev()) : "-");
      cells.push_back(there ? percent(at->second->lost()) : "-");
    }
    table.add(cells);
  }
  table.print();
}

// The scale of a tensor that is judged: a bias that starts at zero has none.
std::vector<double> scales_of(const std::vector<TensorScale>& tensors) {
  std::vector<double> scales;
  for (const TensorScale& each : tensors) {
    if (each.stats.rms() > 0) scales.push_back(each.stats.rms());
  }
  std::ranges::sort(scales);
  return scales;
}

void print_summary(const std::vector<View>& views) {
  constexpr double kMuch = 0.01;
  fmt::print("\n");
  for (const View& view : views) {
    std::vector<double> scales = scales_of(*view.tensors);
    auto losing = std::ranges::count_if(
        *view.tensors, [](const TensorScale& each) { return each.lost() > kMuch; });
    std::string range = scales.empty()
                            ? "all zero"
                            : fmt::format("rms {} to {}, median {}", number(scales.front()),
                                          number(scales.back()), number(scales[scales.size() / 2]));
    fmt::print("{}, {}: {} tensors; {}; {} lose more than {:.0f} %\n", view.method, view.when,
               view.tensors->size(), range, losing, 100 * kMuch);
  }
}

void print_views_json(const std::vector<View>& views) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const View& view : views) {
    for (const TensorScale& each : *view.tensors) {
      auto json = nlohmann::ordered_json::parse(scale_json(each, HistogramJson::without));
      json["method"] = view.method;
      json["when"] = view.when;
      list.push_back(std::move(json));
    }
  }
  print_json(list);
}

std::string figure(const Options& options, const std::vector<View>& views) {
  auto of_method = [&](std::string_view method) -> const View* {
    for (const View& view : views) {
      if (view.method == method) return &view;
    }
    return nullptr;
  };
  const View *regular = of_method("none"), *unit = of_method("unit");
  if (options.source == "ffn" && regular && unit)
    return ffn_figure(*regular->tensors, *unit->tensors);
  std::vector<ScalePanel> panels;
  for (const View& view : views) {
    std::string method = view.method == "none" ? "regular" : view.method;
    panels.push_back({fmt::format("{}, {}", method, view.when), *view.tensors});
  }
  return scales_figure(panels, options.rows);
}

void check_format(const std::string& format) try {
  if (!format.empty() && format != "fp8") find_format(format);
} catch (const Error& error) {
  throw Error("--format: {}", error.what());
}

std::vector<MeasuredMethod> measure(const ScaleSource& source, const Options& options) {
  ProbeOptions probe{options.format, options.filter, "--filter"};
  std::vector<MeasuredMethod> measured;
  for (const std::string& method : source.methods()) {
    measured.push_back(source.measure(method, probe, options.train_steps));
  }
  return measured;
}

// As the run found them, when it began and when it last looked.
MeasuredMethod read_recorded(const Options& options) {
  bool asks_more = options.train_steps > 0 || !options.format.empty() || options.filter != "all" ||
                   !options.settings.changes.empty() || !options.settings.config.empty();
  if (asks_more) {
    throw Error("--recorded: expected no settings, --train, --format or --filter beside it");
  }
  std::vector<RecordedScales> records = recorded_scales(options.source);
  std::string config = options.source + "/config.json";
  MeasuredMethod measured;
  measured.method = read_json_object(config).value("method", std::string("run"));
  auto when = [](const RecordedScales& record) { return fmt::format("step {}", record.step); };
  measured.first = when(records.front());
  measured.start = std::move(records.front().tensors);
  if (records.size() == 1) return measured;
  measured.last = when(records.back());
  measured.end = std::move(records.back().tensors);
  return measured;
}

void run(const Options& options) {
  check_format(options.format);
  if (options.train_steps < 0) {
    throw Error("--train: expected a number of steps, got {}", options.train_steps);
  }
  if (!options.svg.empty()) expect_writable(options.svg);  // not found out after --train
  set_thread_count(options.threads);
  std::optional<ScaleSource> source;
  std::vector<MeasuredMethod> measured;
  if (options.recorded) {
    measured.push_back(read_recorded(options));
  } else {
    source.emplace(options.source, options.settings, find_device(options.device));
    measured = measure(*source, options);
  }
  std::vector<View> views = views_of(measured);
  if (!options.svg.empty()) write_file(options.svg, figure(options, views));
  if (source) source->tell_text();
  if (options.json) return print_views_json(views);
  views.size() == 1 ? print_one(*views.front().tensors) : print_side_by_side(views);
  print_summary(views);
}

}  // namespace

void add_scales(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("scales", "The scale of every tensor, and what a format would lose of it");
  command->add_option("MODEL", options->source, "A model by name, a checkpoint or a run's folder")
      ->required();
  add_settings(*command, options->settings,
               {"method", "scheme", "align", "precision", "rate", "seed"});
  add_text_option(*command, options->settings);
  command->add_option("--format", options->format,
                      "Judge every tensor by this format, or by fp8: e4m3 forward, e5m2 for "
                      "gradients; without it, by what --precision casts it to");
  command->add_option("--filter", options->filter,
                      "all, or a list of ROLE, ROLE:NAME and NAME; roles are activation, weight, "
                      "gradx, gradw");
  command->add_option("--train", options->train_steps,
                      "Train so many steps and look again, to see the drift");
  command->add_flag(
      "--recorded", options->recorded,
      "Of a run's folder: what it found itself when it began and when it last looked");
  command->add_option("--svg", options->svg, "Write histograms of all tensors as a figure");
  command
      ->add_option("--rows", options->rows,
                   "Rows of the figure for each role, middle layers left out; 0: all")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command->add_option("--device", options->device, kDeviceHelp)->capture_default_str();
  command->add_option("--threads", options->threads, "Threads; 0: all cores");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "The pass is computed in fp32, so that every tensor is seen with all its digits. A tensor's\n"
      "format is the narrowest that a run with --precision casts it to (default fp8). lost: of "
      "its\n"
      "numbers that are not zero, the share that becomes zero there or is too large. Without\n"
      "--method, regular, loss-scaled and unit-scaled are measured side by side.\n\n"
      "Examples:\n"
      "  sigma1 scales char_lm --text corpus.txt\n"
      "  sigma1 scales char_lm --method unit --format e4m3 --svg scales.svg\n"
      "  sigma1 scales char_lm --set depth=2 --train 200 --filter gradx,gradw\n"
      "  sigma1 scales runs/a --json\n"
      "  sigma1 scales runs/a --recorded --svg scales.svg\n"
      "  sigma1 scales ffn --set width=1024 --set ffn=4096 --svg figure1.svg");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
