// `sigma1 snr`: how well formats hold a normal distribution of any scale (Figure 2, Figure A.1 and
// Appendices C and D of the paper).
#include "sigma1/numerics/snr.h"

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/base/text.h"
#include "sigma1/report/figures.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"

namespace sigma1 {
namespace {

constexpr int kPointsPerOctaveInFigure = 8;

struct Options {
  std::string formats = "fp16,fp8_e4m3,fp8_e5m2,fp8_e4m3fnuz,fp8_e5m2fnuz";
  std::string sigma = "2^-24:2^16";
  std::string svg;
  bool json = false, outliers = false;
};

struct SigmaRange {
  double low, high;
};

SigmaRange range_from(const std::string& text) {
  std::vector<std::string> ends = split(text, ':');
  auto low = parse_number(ends.front()), high = parse_number(ends.back());
  if (ends.size() > 2 || !low || !high || !(*low > 0) || !std::isfinite(*high)) {
    throw Error("--sigma: expected LOW:HIGH or one number, positive and finite, got '{}'", text);
  }
  if (*low > *high) {
    throw Error("--sigma: expected the lower end first, got {} above {}", ends.front(),
                ends.back());
  }
  return {*low, *high};
}

std::vector<double> sigmas_in(SigmaRange range, int per_octave) {
  std::vector<double> sigmas;
  // A margin for rounding, so that both ends are in.
  double octaves = std::log2(range.high) - std::log2(range.low) + 1e-9;
  for (int i = 0; i <= octaves * per_octave; ++i) {
    sigmas.push_back(std::ldexp(range.low, i / per_octave) *
                     std::exp2(static_cast<double>(i % per_octave) / per_octave));
  }
  return sigmas;
}

// "fp16", or "int8:127/180" for a format with a scale.
NamedCast cast_from(const std::string& text) {
  size_t colon = text.find(':');
  NamedCast named{text, {find_format(text.substr(0, colon)).format}};
  if (colon != std::string::npos) {
    auto scale = parse_number(text.substr(colon + 1));
    if (!scale) throw Error("--formats: expected FORMAT:SCALE, got '{}'", text);
    named.cast.scale = static_cast<float>(*scale);
  }
  try {
    check(named.cast);
  } catch (const Error& error) {
    throw Error("--formats: {}: {}", text, error.what());
  }
  return named;
}

std::vector<NamedCast> casts_from(const Options& options) {
  std::vector<NamedCast> casts;
  for (const std::string& text : split(options.formats, ',')) casts.push_back(cast_from(text));
  if (options.outliers) casts.push_back({"int8:127/180", int8_scaled_for(kMaxOutlier)});
  return casts;
}

void write_figure(const Options& options, const std::vector<NamedCast>& casts, SigmaRange range) {
  if (range.low == range.high) throw Error("--svg: expected a range --sigma LOW:HIGH to draw");
  std::vector<double> sigmas = sigmas_in(range, kPointsPerOctaveInFigure);
  write_file(options.svg, snr_figure(casts, sigmas, options.outliers));
}

void print_curves(const Options& options, const std::vector<NamedCast>& casts, SigmaRange range) {
  std::vector<std::string> headings{"sigma"};
  for (const NamedCast& cast : casts) headings.push_back(cast.name);
  Table table(headings);
  auto list = nlohmann::ordered_json::array();
  for (double sigma : sigmas_in(range, 1)) {
    std::vector<std::string> row{short_number(sigma)};
    for (const auto& [name, cast] : casts) {
      double snr = normal_snr(cast, sigma);
      row.push_back(fmt::format("{:.5g}", snr));
      list.push_back({{"format", name}, {"sigma", sigma}, {"snr", snr}});
    }
    table.add(row);
  }
  options.json ? print_json(list) : table.print();
}

void print_outliers(bool json) {
  Table table({"quantity", "ours", "paper", "assumption"});
  auto list = nlohmann::ordered_json::array();
  for (const auto& [quantity, ours, paper, assumption] : outlier_findings()) {
    table.add({quantity, fmt::format("{:.4g}", ours), fmt::format("{:.4g}", paper), assumption});
    list.push_back(
        {{"quantity", quantity}, {"ours", ours}, {"paper", paper}, {"assumption", assumption}});
  }
  json ? print_json(list) : table.print();
}

void run(const Options& options) {
  SigmaRange range = range_from(options.sigma);
  std::vector<NamedCast> casts = casts_from(options);
  if (!options.svg.empty()) write_figure(options, casts, range);
  if (options.outliers) {
    print_outliers(options.json);
  } else {
    print_curves(options, casts, range);
  }
}

}  // namespace

void add_snr(CLI::App& app) {
  auto* command =
      app.add_subcommand("snr", "Signal-to-noise ratio of a normal distribution in formats");
  command->footer(
      "E[x^2] / E[(q(x) - x)^2] for x ~ N(0, sigma^2), by quadrature, rounding to nearest, at "
      "every\n"
      "factor of two of sigma. FORMAT:SCALE is a format whose input is multiplied by SCALE.\n\n"
      "Examples:\n"
      "  sigma1 snr --svg figure2.svg\n"
      "  sigma1 snr --formats fp16,fp8_e4m3,int8:127/180 --sigma 2^-4:2^4 --json\n"
      "  sigma1 snr --outliers --svg figure_a1.svg");
  auto options = std::make_shared<Options>();
  command->add_option("--formats", options->formats, "Formats, separated by commas")
      ->capture_default_str();
  command->add_option("--sigma", options->sigma, "Scales, LOW:HIGH or one")->capture_default_str();
  command->add_flag("--outliers", options->outliers,
                    "Appendices C and D instead: INT8 and FP8 in the presence of outliers");
  command->add_flag("--json", options->json, "Print a JSON list");
  command->add_option("--svg", options->svg, "Also draw the curves into this file");
  command->callback([options] { run(*options); });
}

}  // namespace sigma1
