// `sigma1 derive`: the unit-scaling factors of any elementwise function, those of the paper's
// Table A.2 and those of an activation that someone has just thought of.
#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"
#include "sigma1/numerics/elementwise_scale.h"
#include "sigma1/numerics/expression.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"

namespace sigma1 {
namespace {

struct Options {
  std::string criterion = "std", sigma = "1";
  bool json = false;
};

double sigma_from(const std::string& text) {
  auto sigma = parse_number(text);
  if (!sigma || !(*sigma > 0) || !std::isfinite(*sigma)) {
    throw Error("--sigma: expected a positive finite number, got '{}'", text);
  }
  return *sigma;
}

const std::string& only_expression(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw Error("derive: expected an expression, such as 'x*sigmoid(x)'");
  if (arguments.size() > 1) {
    throw Error("derive: expected one expression, got '{}' and '{}'; quote one with spaces",
                arguments[0], arguments[1]);
  }
  return arguments[0];
}

// Four digits after the point, wherever the point has to be for them to say something.
std::string four_digits(double value) {
  double size = std::fabs(value);
  bool plain = size == 0 || (size >= 1e-2 && size < 1e6);
  return plain ? fmt::format("{:.4f}", value) : fmt::format("{:.4e}", value);
}

void run(const Options& options, const std::vector<std::string>& arguments) {
  Criterion criterion = parse_criterion(options.criterion);
  double sigma = sigma_from(options.sigma);
  const std::string& text = only_expression(arguments);
  ElementwiseMoments moments = elementwise_moments(parse_expression(text), sigma);
  ElementwiseScale scale = elementwise_scale(moments, criterion);
  if (options.json) {
    print_json({{"expression", text},
                {"criterion", options.criterion},
                {"sigma", sigma},
                {"alpha", scale.alpha},
                {"beta", scale.beta},
                {"mean", moments.mean},
                {"std", moments.std_dev},
                {"rms", moments.rms}});
    return;
  }
  Table table({"alpha", "beta", "mean", "std", "rms"});
  table.add({four_digits(scale.alpha), four_digits(scale.beta), four_digits(moments.mean),
             four_digits(moments.std_dev), four_digits(moments.rms)});
  table.print();
}

std::string footer() {
  std::string functions;
  for (const NamedFunction& function : elementwise_functions()) functions += " " + function.name;
  return "sigma1 derive EXPRESSION [OPTIONS]\n"
         "For x ~ N(0, sigma^2), alpha brings the output f(x) to scale 1, and beta the gradient\n"
         "f'(x) g of a unit-normal g. Mean, std and rms are those of f(x) before scaling.\n\n"
         "An expression has x, numbers, pi, e, + - * / ^, parentheses and the functions\n " +
         functions +
         "\nA function's name alone means the function of x.\n\n"
         "Examples:\n"
         "  sigma1 derive gelu\n"
         "  sigma1 derive 'x*sigmoid(1.702*x)' --json\n"
         "  sigma1 derive relu --criterion rms\n"
         "  sigma1 derive '-x^2/2 + max(x, 0.1*x)' --sigma 2^-3";
}

}  // namespace

void add_derive(CLI::App& app) {
  auto* command =
      app.add_subcommand("derive", "Derive the unit-scaling factors of an elementwise function");
  command->footer(footer());
  auto options = std::make_shared<Options>();
  command->add_option("--criterion", options->criterion, "What is brought to 1: std or rms")
      ->capture_default_str();
  command->add_option("--sigma", options->sigma, "Scale of the input")->capture_default_str();
  command->add_flag("--json", options->json, "Print a JSON object");
  // The expression is what CLI11 leaves over, because it would take -x^2 for a flag.
  command->allow_extras();
  command->callback([options, command] { run(*options, command->remaining()); });
}

}  // namespace sigma1
