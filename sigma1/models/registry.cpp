#include "sigma1/models/registry.h"

#include <algorithm>

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
    {"gpt", "a decoder of GPT-2's or Llama's blocks", build_gpt, gpt_defaults, true},
};

// Radford et al. (2019), Table 2, by the names their checkpoints have.
struct NamedSize {
  std::string_view name;
  int64_t depth, width, heads;
};
constexpr NamedSize kNamedSizes[] = {
    {"124M", 12, 768, 12}, {"355M", 24, 1024, 16}, {"774M", 36, 1280, 20}, {"1.5B", 48, 1600, 25}};
constexpr int64_t kNamedTime = 1024;

void check_blocks(const Model& model, const ModelConfig& config) {
  if (model.has_blocks) return;
  bool asked = config.block != ModelConfig().block || config.kv_heads != 0 || !config.named.empty();
  if (asked) throw Error("block, kv-heads, size: expected model gpt, got '{}'", model.name);
}

void check_parametrization(const Model& model, const ModelConfig& config) {
  if (config.parametrization != "unit" && !config.is_u_mup()) {
    throw Error("parametrization: expected unit or u-mup, got '{}'", config.parametrization);
  }
  if (config.is_u_mup() && !model.has_blocks) {
    throw Error("parametrization u-mup: expected model gpt, got '{}'", model.name);
  }
  bool multiplies = config.residual_multiplier != 1 || config.residual_attention_ratio != 1 ||
                    config.loss_multiplier != 1;
  if (multiplies && !config.is_u_mup()) {
    throw Error(
        "residual-multiplier, residual-attention-ratio, loss-multiplier: expected parametrization "
        "u-mup, got {}",
        config.parametrization);
  }
}

void check_sizes(const Model& model, const ModelConfig& given) {
  ModelConfig config = model.has_blocks ? given.resolved() : given;
  const std::pair<const char*, int64_t> sizes[] = {
      {"batch", config.batch},          {"time", config.time},   {"width", config.width},
      {"ffn", config.hidden},           {"depth", config.depth}, {"heads", config.heads},
      {"vocabulary", config.vocabulary}};
  for (auto [name, size] : sizes) {
    if (size <= 0) throw Error("{}: expected a positive number, got {}", name, size);
  }
  const std::pair<const char*, double> multipliers[] = {
      {"attention multiplier", config.attention_multiplier},
      {"activation multiplier", config.activation_multiplier},
      {"residual multiplier", config.residual_multiplier},
      {"residual attention ratio", config.residual_attention_ratio},
      {"loss multiplier", config.loss_multiplier}};
  for (auto [name, multiplier] : multipliers) {
    if (!(multiplier > 0)) throw Error("{}: expected a positive number, got {}", name, multiplier);
  }
}

}  // namespace

void ModelConfig::set_named(std::string_view size) {
  std::vector<std::string_view> names;
  for (const NamedSize& each : kNamedSizes) {
    names.push_back(each.name);
    if (each.name != size) continue;
    named = size;
    depth = each.depth;
    width = each.width;
    heads = each.heads;
    hidden = 4 * each.width;
    time = kNamedTime;
    return;
  }
  throw Error("size: expected {}, got '{}'", fmt::join(names, ", "), size);
}

ModelConfig ModelConfig::resolved() const {
  constexpr int64_t kOfAHead = 64;
  ModelConfig result = *this;
  if (heads == 0) result.heads = std::max<int64_t>(1, width / kOfAHead);
  if (hidden == 0) result.hidden = 4 * width;
  return result;
}

ResidualWeights ModelConfig::residual_weights(int64_t l) const {
  if (is_u_mup()) {
    return u_mup_residual(l - 1, 2 * depth, residual_multiplier, residual_attention_ratio);
  }
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
  check_sizes(model, config);
  check_blocks(model, config);
  check_parametrization(model, config);
  model.build(graph, config);
}

}  // namespace sigma1
