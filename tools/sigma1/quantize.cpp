// `sigma1 quantize`: what becomes of single numbers in a format.
#include "sigma1/numerics/quantize.h"

#include <cmath>
#include <cstdio>
#include <iostream>

#include "sigma1/base/error.h"
#include "sigma1/base/rng.h"
#include "sigma1/base/text.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"

namespace sigma1 {
namespace {

struct Options {
  std::string format, rounding = "nearest", overflow = "saturate", scale = "1";
  int64_t seed = 0;
  bool json = false;
};

double number_from(const std::string& text, std::string_view what) {
  auto value = parse_number(text);
  if (!value) throw Error("{}: expected a number, got '{}'", what, text);
  return *value;
}

Cast cast_from(const Options& options) {
  Cast cast{find_format(options.format).format, parse_rounding(options.rounding),
            parse_overflow(options.overflow)};
  cast.scale = static_cast<float>(number_from(options.scale, "--scale"));
  if (!std::isnormal(cast.scale) || cast.scale < 0) {
    throw Error("--scale: expected a positive number within fp32's range, got '{}'", options.scale);
  }
  try {
    check(cast);
  } catch (const Error& error) {
    throw Error("{}: {}", options.format, error.what());
  }
  return cast;
}

// Arguments, or words of standard input when there are none.
std::vector<double> values_from(const std::vector<std::string>& arguments) {
  std::vector<double> values;
  for (const std::string& text : arguments) values.push_back(number_from(text, "value"));
  if (!arguments.empty()) return values;
  for (std::string text; std::cin >> text;) {
    values.push_back(number_from(text, "standard input"));
  }
  if (std::ferror(stdin) != 0) throw Error("standard input cannot be read");
  return values;
}

std::string relative_error(double value, double quantized) {
  if (value == quantized) return "0";
  if (!std::isfinite(value) || !std::isfinite(quantized)) return "-";
  return fmt::format("{:.3g}", std::fabs(quantized - value) / std::fabs(value));
}

void run(const Options& options, const std::vector<std::string>& arguments) {
  Cast cast = cast_from(options);
  if (options.seed < 0) throw Error("--seed: expected 0 or more, got {}", options.seed);
  int hex_digits = (cast.format.bits() + 3) / 4;
  RandomStream random(static_cast<uint64_t>(options.seed), "quantize");
  Table table({"value", "code", "becomes", "relative error"});
  auto list = nlohmann::ordered_json::array();
  uint64_t index = 0;
  for (double value : values_from(arguments)) {
    if (std::isnan(value) && !cast.format.has_nan()) {
      throw Error("{}: the format has no NaN to hold one", options.format);
    }
    uint32_t code = encode(value, cast, random.bits(index++));
    double quantized = decode(code, cast);
    std::string hex = fmt::format("0x{:0{}x}", code, hex_digits);
    table.add({fmt::format("{}", value), hex, fmt::format("{}", quantized),
               relative_error(value, quantized)});
    list.push_back(
        {{"input", json_number(value)}, {"code", hex}, {"value", json_number(quantized)}});
  }
  options.json ? print_json(list) : table.print();
}

}  // namespace

void add_quantize(CLI::App& app) {
  auto* command = app.add_subcommand("quantize", "Show what numbers become in a format");
  command->footer(
      "sigma1 quantize --format F [OPTIONS] [VALUE...]\n"
      "A value is written 0.1, 1e-3, 0x1p-3, 2^-24, 127/180, inf or nan; without any, values are\n"
      "read from standard input.\n\n"
      "Examples:\n"
      "  sigma1 quantize --format fp8_e4m3 0.1 300 -2^-9\n"
      "  sigma1 quantize --format fp8_e5m2 --overflow infinity 1e6\n"
      "  sigma1 quantize --format int8 --scale 127/180 60\n"
      "  seq 1 20 | sigma1 quantize --format fp4_e2m1 --json");
  auto options = std::make_shared<Options>();
  command->add_option("-f,--format", options->format, "Number format (see `sigma1 formats`)")
      ->required();
  command->add_option("--rounding", options->rounding, "nearest, stochastic or toward-zero")
      ->capture_default_str();
  command->add_option("--overflow", options->overflow, "saturate, infinity or nan")
      ->capture_default_str();
  command->add_option("--scale", options->scale, "Multiply by this first, divide by it after")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of stochastic rounding")->capture_default_str();
  command->add_flag("--json", options->json, "Print a JSON list");
  // Numbers are what CLI11 leaves over, because it would take -inf or -2^-9 for a flag.
  command->allow_extras();
  command->callback([options, command] { run(*options, command->remaining()); });
}

}  // namespace sigma1
