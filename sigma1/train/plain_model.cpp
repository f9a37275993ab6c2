#include "sigma1/train/plain_model.h"

#include "sigma1/analysis/parameter_factors.h"
#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

ParameterValues multiplied(const ParameterValues& values,
                           const std::map<std::string, double>& factors) {
  ParameterValues result;
  for (const auto& [name, factor] : factors) {
    auto found = values.find(name);
    if (found == values.end()) throw Bug("no numbers for the parameter {}", name);
    std::vector<float>& numbers = result[name] = found->second;
    for (float& number : numbers) number = static_cast<float>(factor * number);
  }
  return result;
}

}  // namespace

TrainConfig plain_config(const TrainConfig& config) {
  TrainConfig plain = config;
  plain.method = "none";
  plain.size.residual = "default";
  plain.size.attention_multiplier = plain.size.activation_multiplier = 1;
  return plain;
}

ParameterValues to_plain(const StoredModel& model) {
  std::shared_ptr<Graph> own = forward_graph(model.config, model.alignment);
  std::shared_ptr<Graph> plain = forward_graph(plain_config(model.config), {});
  return multiplied(model.parameters, parameter_factors(*own, *plain));
}

ParameterValues from_plain(const TrainConfig& config, const Alignment& alignment,
                           const ParameterValues& plain) {
  std::shared_ptr<Graph> own = forward_graph(config, alignment);
  std::shared_ptr<Graph> from = forward_graph(plain_config(config), {});
  return multiplied(plain, parameter_factors(*from, *own));
}

}  // namespace sigma1
