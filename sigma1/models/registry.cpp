#include "sigma1/models/registry.h"

#include <algorithm>

#include "sigma1/base/error.h"
#include "sigma1/base/text.h"
#include "sigma1/models/bert.h"
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
    {"gpt", "a decoder of GPT-2's or Llama's blocks", build_gpt, gpt_defaults, true, "gpt"},
    {"bert", "an encoder that guesses masked tokens and whether a sentence follows", build_bert,
     bert_defaults, false, "bert"},
    {"bert_squad", "the same encoder, pointing at where an answer starts and ends",
     build_bert_squad, bert_defaults, false, "bert"},
};

// Radford et al. (2019), Table 2, by the names their checkpoints have; Devlin et al. (2019).
struct NamedSize {
  std::string_view name, family;
  int64_t depth, width, heads;
  int64_t time = 0;  // 0: any
};
constexpr NamedSize kNamedSizes[] = {
    {"124M", "gpt", 12, 768, 12, 1024},  {"355M", "gpt", 24, 1024, 16, 1024},
    {"774M", "gpt", 36, 1280, 20, 1024}, {"1.5B", "gpt", 48, 1600, 25, 1024},
    {"base", "bert", 12, 768, 12},       {"large", "bert", 24, 1024, 16}};

void check_blocks(const Model& model, const ModelConfig& config) {
  bool blocks = config.block != ModelConfig().block || config.kv_heads != 0;
  if (blocks && !model.has_blocks) {
    throw Error("block, kv-heads: expected model gpt, got '{}'", model.name);
  }
  for (const NamedSize& each : kNamedSizes) {
    if (each.name == config.named && each.family != model.family) {
      throw Error("size {}: expected model {}, got '{}'", each.name, each.family, model.name);
    }
  }
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

// Far beyond what a machine holds; above it a count of bytes could leave 64 bits, and a graph of
// its layers take all memory before anything is found wrong.
constexpr int64_t kLargestSize = int64_t{1} << 40, kMostLayers = 10'000;
constexpr double kMostElements = 0x1p52;

void expect_size(const char* name, int64_t size, int64_t most = kLargestSize) {
  if (size <= 0) throw Error("{}: expected a positive number, got {}", name, size);
  if (size > most) throw Error("{}: expected at most {}, got {}", name, most, size);
}

void check_elements(const ModelConfig& config) {
  auto widest = static_cast<double>(std::max({config.width, config.hidden, config.vocabulary}));
  auto rows = static_cast<double>(config.batch) * static_cast<double>(config.time);
  for (double count : {rows * widest, widest * widest}) {
    if (count <= kMostElements) continue;
    throw Error(
        "batch, time, width, ffn, vocabulary: expected tensors of at most 2^52 numbers, got one of "
        "{:.3g}",
        count);
  }
}

void check_sizes(const Model& model, const ModelConfig& given) {
  expect_size("width", given.width);
  expect_size("depth", given.depth, kMostLayers);
  ModelConfig config = model.family.empty() ? given : given.resolved();
  const std::pair<const char*, int64_t> sizes[] = {{"batch", config.batch},
                                                   {"time", config.time},
                                                   {"ffn", config.hidden},
                                                   {"heads", config.heads},
                                                   {"vocabulary", config.vocabulary},
                                                   {"positions", config.positions},
                                                   {"predictions", config.predictions}};
  for (auto [name, size] : sizes) expect_size(name, size);
  check_elements(config);
  const std::pair<const char*, double> multipliers[] = {
      {"attention-multiplier", config.attention_multiplier},
      {"activation-multiplier", config.activation_multiplier},
      {"residual-multiplier", config.residual_multiplier},
      {"residual-attention-ratio", config.residual_attention_ratio},
      {"loss-multiplier", config.loss_multiplier}};
  for (auto [name, multiplier] : multipliers) {
    // Factors around an op are of the multiplier's size, or one over it, and fp32 has to hold them.
    if (multiplier >= 1e-12 && multiplier <= 1e12) continue;
    throw Error("{}: expected a positive number from 1e-12 to 1e12, got {}", name, multiplier);
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
    if (each.time > 0) time = each.time;
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
