#include "sigma1/models/registry.h"

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"
#include "sigma1/models/char_lm.h"
#include "sigma1/models/ffn.h"
#include "sigma1/models/gpt.h"
#include "sigma1/models/mlp.h"
#include "sigma1/models/transformer.h"

namespace sigma1 {
namespace {

ModelConfig small_defaults() { return {}; }

constexpr Model kModels[] = {
    {"mlp", "dense layers with relu, ending in a squared error", build_mlp, small_defaults},
    {"ffn", "the Transformer's feed-forward layer of the paper's code figure", build_ffn,
     small_defaults},
    {"transformer", "a small causal language model: attention and feed-forward blocks",
     build_transformer, small_defaults},
    {"char_lm", "the paper's character language models", build_char_lm, char_lm_defaults},
    {"gpt", "a decoder with learned positions and gelu, as GPT-2", build_gpt, gpt_defaults},
};

void check_sizes(const ModelConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"batch", config.batch},          {"time", config.time},   {"width", config.width},
      {"hidden", config.hidden},        {"depth", config.depth}, {"heads", config.heads},
      {"vocabulary", config.vocabulary}};
  for (auto [name, size] : sizes) {
    if (size <= 0) throw Error("{}: expected a positive number, got {}", name, size);
  }
  const std::pair<const char*, double> multipliers[] = {
      {"attention multiplier", config.attention_multiplier},
      {"activation multiplier", config.activation_multiplier}};
  for (auto [name, multiplier] : multipliers) {
    if (!(multiplier > 0)) throw Error("{}: expected a positive number, got {}", name, multiplier);
  }
}

}  // namespace

ResidualWeights ModelConfig::residual_weights(int64_t l) const {
  if (residual == "default") return default_residual();
  if (residual == "fixed") return fixed_residual(tau);
  if (residual == "running-mean") return running_mean_residual(l);
  throw Error("residual: expected default, fixed or running-mean, got '{}'", residual);
}

std::span<const Model> model_registry() { return kModels; }

const Model& find_model(std::string_view name) {
  std::vector<std::string> names;
  for (const Model& model : kModels) {
    if (model.name == name) return model;
    names.emplace_back(model.name);
  }
  std::string nearest = nearest_name(name, names);
  throw Error("unknown model '{}'{}; the models are {}", name,
              nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest),
              fmt::join(names, ", "));
}

void build_model(Graph& graph, std::string_view name, const ModelConfig& config) {
  const Model& model = find_model(name);
  check_sizes(config);
  model.build(graph, config);
}

}  // namespace sigma1
