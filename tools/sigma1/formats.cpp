// `sigma1 formats`: every named number format and what follows from its bits (Table A.1).
#include <fmt/format.h>

#include "sigma1/base/text.h"
#include "sigma1/numerics/float_format.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"

namespace sigma1 {
namespace {

std::string specials_of(const FloatFormat& format) {
  if (format.specials == Specials::nan_is_neg_zero) return "NaN at -0";
  if (format.has_infinity()) return format.has_nan() ? "inf, NaN" : "inf";
  return format.has_nan() ? "NaN" : "none";
}

void print_table(const std::vector<NamedFormat>& formats) {
  Table table({"name", "E", "M", "bias", "max exp", "min exp", "max", "min normal", "min subnormal",
               "specials", "finite values", "paper", "also known as"});
  for (const auto& [name, label, format, aliases] : formats) {
    table.add({name, fmt::format("{}", format.exponent_bits),
               fmt::format("{}", format.mantissa_bits), fmt::format("{}", format.bias),
               fmt::format("{}", format.max_exponent()), fmt::format("{}", format.min_exponent()),
               short_number(format.max()), short_number(format.min_normal()),
               short_number(format.min_subnormal()), specials_of(format),
               fmt::format("{}", format.finite_values()), label,
               fmt::format("{}", fmt::join(aliases, " "))});
  }
  table.print();
}

void print_as_json(const std::vector<NamedFormat>& formats) {
  auto list = nlohmann::ordered_json::array();
  for (const auto& [name, label, format, aliases] : formats) {
    list.push_back({{"name", name},
                    {"exponent_bits", format.exponent_bits},
                    {"mantissa_bits", format.mantissa_bits},
                    {"bias", format.bias},
                    {"max_exponent", format.max_exponent()},
                    {"min_exponent", format.min_exponent()},
                    {"max", format.max()},
                    {"min_normal", format.min_normal()},
                    {"min_subnormal", format.min_subnormal()},
                    {"finite_values", format.finite_values()},
                    {"infinity", format.has_infinity()},
                    {"nan", format.has_nan()},
                    {"paper", label},
                    {"aliases", aliases}});
  }
  print_json(list);
}

}  // namespace

void add_formats(CLI::App& app) {
  auto* command = app.add_subcommand("formats", "List number formats and their limits");
  command->footer(
      "Without names, all that have one; any eXmY (IEEE-like), eXmYfn (no infinity) or eXmYfnuz\n"
      "(one NaN, at -0) is a format too. +0 and -0 count as one finite value.\n\n"
      "Examples:\n  sigma1 formats\n  sigma1 formats fp8_e4m3 e3m4 --json");
  struct Options {
    std::vector<std::string> names;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("NAME", options->names, "Formats to list (default: all that have a name)");
  command->add_flag("--json", options->json, "Print a JSON list");
  command->callback([options] {
    std::vector<NamedFormat> formats;
    for (const std::string& name : options->names) formats.push_back(find_format(name));
    if (options->names.empty()) formats.assign(named_formats().begin(), named_formats().end());
    options->json ? print_as_json(formats) : print_table(formats);
  });
}

}  // namespace sigma1
