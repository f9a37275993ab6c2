#include <algorithm>
#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"
#include "sigma1/passes/lowering.h"
#include "sigma1/train/scale_probe.h"
#include "sigma1/train/stored_model.h"
#include "sigma1/train/train_config.h"

namespace sigma1 {
namespace {

void expect_one_of(std::string_view key, std::string_view got,
                   std::initializer_list<std::string_view> allowed) {
  if (std::ranges::find(allowed, got) != allowed.end()) return;
  throw Error("{}: expected {}, got '{}'", key, fmt::join(allowed, ", "), got);
}

void expect_at_least(std::string_view key, int64_t got, int64_t least) {
  if (got < least) throw Error("{}: expected {} or more, got {}", key, least, got);
}

void check_counts(const TrainConfig& config) {
  const ModelConfig& size = config.size;
  for (auto [key, value] : {std::pair{"depth", size.depth},
                            {"width", size.width},
                            {"batch", size.batch},
                            {"time", size.time},
                            {"steps", config.steps},
                            {"accumulate", config.accumulate},
                            {"rank-timeout", config.rank_timeout},
                            {"keep", config.keep_checkpoints},
                            {"log-every", config.log_every}}) {
    expect_at_least(key, value, 1);
  }
  for (auto [key, value] : {std::pair{"masked", config.context},
                            {"evaluate-every", config.evaluate_every},
                            {"evaluate-limit", config.evaluate_limit},
                            {"checkpoint-every", config.checkpoint_every},
                            {"probe-every", config.probe_every},
                            {"monitor-every", config.monitor_every},
                            {"warmup", config.warmup},
                            {"half-life", config.half_life},
                            {"seed", config.seed},
                            {"ranks", config.ranks},
                            {"vocabulary", config.tokens.vocabulary}}) {
    expect_at_least(key, value, 0);
  }
}

// What is stored between steps is written into checkpoints, in the formats they have.
void check_stored(const Precision& formats) {
  for (auto [key, name] : {std::pair{"weights", formats.weights}, {"moment", formats.moment}}) {
    try {
      dtype_of(find_format(name).format);
    } catch (const Error&) {
      throw Error(
          "{}: expected fp32, bf16, fp16, fp8_e4m3 or fp8_e5m2, which checkpoints can hold, got {}",
          key, name);
    }
  }
}

void check_probes(const TrainConfig& config) {
  if (!config.probe.empty()) ProbeFilter filter(config.probe);
  for (auto [key, value] : {std::pair{"saturation-limit", config.saturation_limit},
                            {"underflow-limit", config.underflow_limit}}) {
    if (!(value >= 0 && value <= 1)) {
      throw Error("{}: expected a share from 0 to 1, got {}", key, value);
    }
  }
  if (config.demote && config.monitor_every == 0) {
    throw Error("demote: expected monitor-every above 0, or nothing is seen to saturate");
  }
}

void check_optimiser(const TrainConfig& config) {
  expect_one_of("optimiser", config.optimiser, {"sgd", "adam", "adamw", "lamb"});
  for (auto [key, value] :
       {std::pair{"momentum", config.momentum}, {"beta1", config.beta1}, {"beta2", config.beta2}}) {
    if (!(value >= 0 && value < 1)) {
      throw Error("{}: expected a number from 0 to below 1, got {}", key, value);
    }
  }
  for (auto [key, value] : {std::pair{"rate", config.rate},
                            {"epsilon", config.epsilon},
                            {"weight-decay", config.weight_decay}}) {
    if (!(value >= 0)) throw Error("{}: expected 0 or more, got {}", key, value);
  }
}

void check_u_mup(const TrainConfig& config) {
  if (!config.is_u_mup()) return;
  if (config.method != "unit") {
    throw Error("parametrization u-mup: expected method unit, got {}", config.method);
  }
  if (config.optimiser != "adam" && config.optimiser != "adamw") {
    throw Error("parametrization u-mup: expected optimiser adam or adamw, got {}",
                config.optimiser);
  }
  if (config.weight_decay > 0 && config.optimiser != "adamw") {
    throw Error("weight-decay: expected optimiser adamw under u-mup, got {}", config.optimiser);
  }
}

}  // namespace

void TrainConfig::check_ranks() const {
  expect_one_of("reduce", reduce, {"fp32", "bf16", "fp16"});
  expect_one_of("shard", shard, {"none", "optimiser"});
  expect_one_of("gather", gather, {"narrow", "stored"});
  expect_one_of("collectives", collectives, {"needed", "always"});
  if (!(bucket > 0 && bucket <= 4096)) {
    throw Error("bucket: expected MB above 0 and up to 4096, got {}", bucket);
  }
  if (parts() % world == 0) return;
  throw Error(
      "ranks: expected a number that divides the {} batches of a step (accumulate {} x ranks {}), "
      "got {}",
      parts(), accumulate, std::max<int64_t>(1, ranks), world);
}

bool TrainConfig::reads_text() const {
  Graph graph;
  build_model(graph, model, size);
  auto reads = [&](std::string_view name) {
    return std::ranges::any_of(
        graph.nodes(), [&](const Node& node) { return node.op == &input_op && node.name == name; });
  };
  return reads("tokens") && (reads("mask") || reads("masked_labels") || reads("start"));
}

void TrainConfig::check() const {
  Method parsed = Method::parse(method);
  parse_scheme(scheme);
  parse_recompute(recompute);
  expect_one_of("align", align, {"default", "function", "measure", "none"});
  expect_one_of("keep-attention", keep_attention, {"auto", "true", "false"});
  expect_one_of("dispatch", dispatch, {"measured", "none"});
  if (!weight_rounding.empty()) {
    expect_one_of("weight-rounding", weight_rounding, {"nearest", "stochastic"});
  }
  tokens.of(train_text);
  check_counts(*this);
  check_optimiser(*this);
  check_ranks();
  check_u_mup(*this);
  check_probes(*this);
  Precision formats = resolved_precision();
  if (parsed.kind == Method::Kind::per_tensor && formats.matmul == "stored") {
    throw Error("method per-tensor: expected a precision that casts before products, as fp8 does");
  }
  check_stored(formats);
  check_schedule(resolved_schedule());
  // The rest is known to the model alone, so it is built: what is wrong should show before a text
  // of gigabytes is read.
  if (!reads_text()) {
    throw Error("model: expected one that reads text, char_lm, gpt, bert or bert_squad, got '{}'",
                model);
  }
  if (context >= size.time && !reads_pairs() && !reads_questions()) {
    throw Error("masked: expected fewer than the {} tokens of a sequence, got {}", size.time,
                context);
  }
}

}  // namespace sigma1
