// `sigma1 ops`: the catalogue with its scale rules, and any op's factors beside measured ones.
#include <fmt/ranges.h>

#include <cmath>

#include "sigma1/backend/simulate.h"
#include "sigma1/base/error.h"
#include "sigma1/base/text.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/catalogue.h"
#include "sigma1/passes/scaling.h"
#include "tools/sigma1/commands.h"
#include "tools/sigma1/output.h"

namespace sigma1 {
namespace {

struct Options {
  std::string name, criterion = "std", mean = "geometric";
  std::vector<std::string> shapes, settings;
  bool json = false, all = false, derived = false;
};

// "256x128" or "256,128"; "scalar" has no axes.
Shape shape_from(const std::string& text) {
  if (text == "scalar") return {};
  Shape shape;
  for (const std::string& part : split(text, text.find(',') != std::string::npos ? ',' : 'x')) {
    auto size = parse_number(part);
    if (!size || !(*size >= 1 && *size <= 1e9) || *size != std::floor(*size)) {
      throw Error("--shape: expected positive sizes as in 256x128, got '{}'", text);
    }
    shape.push_back(static_cast<int64_t>(*size));
  }
  if (element_count(shape) > 100'000'000) {
    throw Error("--shape: expected at most 1e8 elements, which a simulation can hold, got '{}'",
                text);
  }
  return shape;
}

std::vector<double> numbers_from(const std::string& text) {
  std::vector<double> numbers;
  for (const std::string& part : split(text, ',')) {
    auto number = parse_number(part);
    if (!number || !std::isfinite(*number)) throw Error("--set: expected a number, got '{}'", part);
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<int64_t> whole_numbers_from(const std::string& text) {
  std::vector<int64_t> wholes;
  for (double number : numbers_from(text)) {
    if (number != std::floor(number) || std::fabs(number) > 1e15) {
      throw Error("--set: expected a whole number, got '{}'", text);
    }
    wholes.push_back(static_cast<int64_t>(number));
  }
  return wholes;
}

bool truth_from(const std::string& text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  throw Error("--set: expected true or false, got '{}'", text);
}

// A setting keeps the type that the op's default has.
Attribute setting_like(const Attribute& otherwise, const std::string& text) {
  if (std::holds_alternative<bool>(otherwise)) return truth_from(text);
  if (std::holds_alternative<int64_t>(otherwise)) return whole_numbers_from(text).front();
  if (std::holds_alternative<double>(otherwise)) return numbers_from(text).front();
  if (std::holds_alternative<std::string>(otherwise)) return text;
  if (std::holds_alternative<std::vector<int64_t>>(otherwise)) return whole_numbers_from(text);
  return numbers_from(text);
}

Attributes attributes_from(const OpDef& op, const Options& options,
                           const std::vector<TensorType>& inputs) {
  Attributes attributes = op.defaults == nullptr ? Attributes{} : op.defaults(inputs);
  const Attributes defaults = attributes;
  std::vector<std::string> known;
  for (const auto& [name, value] : defaults.entries()) known.push_back(name);
  for (const std::string& setting : options.settings) {
    size_t equals = setting.find('=');
    bool found = false;
    for (const auto& [name, value] : defaults.entries()) {
      if (equals == std::string::npos || name != setting.substr(0, equals)) continue;
      attributes.set(name, setting_like(value, setting.substr(equals + 1)));
      found = true;
    }
    if (!found) {
      throw Error("--set: expected NAME=VALUE with a name of {} ({}), got '{}'", op.name,
                  known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")), setting);
    }
  }
  return attributes;
}

std::vector<TensorType> inputs_from(const OpDef& op, const Options& options) {
  std::vector<std::string> shapes;
  for (const std::string& text : options.shapes) {
    // Several in one word: 256x128,128x512.
    bool several = text.find('x') != std::string::npos && text.find(',') != std::string::npos;
    for (const std::string& shape : several ? split(text, ',') : std::vector{text}) {
      shapes.push_back(shape);
    }
  }
  if (shapes.size() < op.min_inputs || shapes.size() > op.max_inputs) {
    throw Error("--shape: {} takes {} inputs, got {} shapes", op.name,
                op.min_inputs == op.max_inputs ? fmt::format("{}", op.min_inputs)
                                               : fmt::format("{} or more", op.min_inputs),
                shapes.size());
  }
  std::vector<TensorType> inputs;
  for (const std::string& text : shapes) inputs.push_back({shape_from(text)});
  Attributes attributes = attributes_from(op, options, inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (role_of(op, {inputs, attributes}, i) == Role::index) inputs[i].kind = Kind::index;
  }
  return inputs;
}

// As inside a residual stack: parameters on cut edges, activations on others.
Scales constrained(const OpDef& op, const OpView& view, Scales scales, Mean mean) {
  std::vector<double> group{scales.alpha};
  std::vector<size_t> members;
  for (size_t i = 0; i < view.inputs.size(); ++i) {
    if (role_of(op, view, i) != Role::activation) continue;
    members.push_back(i);
    group.push_back(scales.beta[i]);
  }
  if (members.empty()) return scales;
  scales.alpha = combine_factors(group, mean);
  for (size_t i : members) scales.beta[i] = scales.alpha;
  return scales;
}

Scales measured_factors(const Measured& measured) {
  Scales scales{1 / measured.output, {}};
  for (double gradient : measured.gradients) scales.beta.push_back(gradient > 0 ? 1 / gradient : 1);
  return scales;
}

nlohmann::ordered_json json_of(const Scales& scales) {
  return {{"alpha", json_number(scales.alpha)}, {"beta", scales.beta}};
}

void print_factors(const OpDef& op, const Options& options) {
  if (op.scale == nullptr) {
    throw Error("{}: only gradients or optimisers use it, and it has no scale rule", op.name);
  }
  std::vector<TensorType> inputs = inputs_from(op, options);
  Attributes attributes = attributes_from(op, options, inputs);
  OpView view{inputs, attributes};
  ScaleContext context{parse_criterion(options.criterion), !options.derived};
  Scales ideal;
  try {
    op.infer(view);
    ideal = op.scale(view, context);
  } catch (const Error& error) {
    throw Error("{}: {}", op.name, error.what());
  }
  Scales together = constrained(op, view, ideal, parse_mean(options.mean));
  Scales measured = measured_factors(simulate(op, inputs, attributes, context.criterion));
  if (options.json) {
    return print_json({{"name", op.name},
                       {"ideal", json_of(ideal)},
                       {"constrained", json_of(together)},
                       {"measured", json_of(measured)}});
  }
  std::vector<std::string> headings{std::string(op.name), "alpha"};
  for (size_t i = 0; i < inputs.size(); ++i) headings.push_back(fmt::format("beta_{}", i));
  Table table(headings);
  auto add = [&](const char* label, const Scales& scales) {
    std::vector<std::string> row{label, fmt::format("{:.5g}", scales.alpha)};
    for (size_t i = 0; i < inputs.size(); ++i) {
      bool shown = carries_gradient(op, view, i);
      row.push_back(shown ? fmt::format("{:.5g}", scales.beta[i]) : "-");
    }
    table.add(row);
  };
  add("ideal", ideal);
  add("constrained", together);
  add("measured", measured);
  table.print();
}

// All ops that models use, or the one that was named.
void print_catalogue(const Options& options) {
  const OpDef* only = options.name.empty() ? nullptr : &find_op(options.name);
  Table table({"op", "inputs", "what it computes; its factors"});
  auto list = nlohmann::ordered_json::array();
  for (const OpDef* op : op_catalogue()) {
    bool is_model_op = op->scale != nullptr && !is_source(*op);
    if (only != nullptr ? op != only : !is_model_op && !options.all) continue;
    std::string inputs = op->min_inputs == op->max_inputs ? fmt::format("{}", op->min_inputs)
                         : op->max_inputs > 100
                             ? fmt::format("{}+", op->min_inputs)
                             : fmt::format("{}-{}", op->min_inputs, op->max_inputs);
    table.add({std::string(op->name), inputs, std::string(op->formula)});
    list.push_back({{"name", op->name}, {"inputs", inputs}, {"formula", op->formula}});
  }
  options.json ? print_json(list) : table.print();
}

}  // namespace

void add_ops(CLI::App& app) {
  auto* command = app.add_subcommand("ops", "List ops and their scale factors, and check them");
  command->footer(
      "With a NAME and a shape for each input: the factors that give unit scale to the op alone "
      "(ideal),\n"
      "with activations on a cycle and parameters on cut edges (constrained), and 1 over the "
      "scales\n"
      "seen when the op is run on random numbers (measured).\n\n"
      "Examples:\n"
      "  sigma1 ops\n"
      "  sigma1 ops matmul --shape 256x128 128x512\n"
      "  sigma1 ops gelu --shape 1000x1000 --criterion rms --json\n"
      "  sigma1 ops attention --shape 2x128x256 2x128x256 2x128x256 --set heads=4");
  auto options = std::make_shared<Options>();
  command->add_option("NAME", options->name, "Op to look at (default: list all)");
  command->add_option("--shape", options->shapes, "Shape of each input, as 256x128; scalar: none");
  command->add_option("--set", options->settings, "Settings of the op, NAME=VALUE");
  command->add_option("--criterion", options->criterion, "std or rms")->capture_default_str();
  command->add_option("--mean", options->mean, "geometric, arithmetic, harmonic or to-output")
      ->capture_default_str();
  command->add_flag("--derived", options->derived,
                    "The better rule where Table A.2 of the paper simplifies (softmax)");
  command->add_flag("--all", options->all, "List what only gradients and optimisers use, too");
  command->add_flag("--json", options->json, "Print JSON");
  command->callback([options] {
    if (options->shapes.empty()) return print_catalogue(*options);
    if (options->name.empty()) throw Error("--shape: expected the name of an op before it");
    print_factors(find_op(options->name), *options);
  });
}

}  // namespace sigma1
