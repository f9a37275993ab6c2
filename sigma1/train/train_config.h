// Everything that decides a training run, by key: what a config file and --set say, what a
// checkpoint carries and what a record prints. One table, so that the three cannot differ.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sigma1/models/registry.h"
#include "sigma1/passes/precision.h"
#include "sigma1/passes/unit_scaling.h"
#include "sigma1/train/corpus.h"
#include "sigma1/train/schedule.h"

namespace sigma1 {

struct TrainConfig {
  std::string model = "char_lm";
  ModelConfig size = find_model("char_lm").defaults();
  int64_t context = 32;  // characters of a window that are read but not counted

  std::string train_text, valid_text;  // files or folders; without a second, the first's end
  Tokens tokens;                       // what these are made of
  // Of bert_squad: the vocabulary, whether it has upper case, and how texts are cut into windows.
  std::string vocab_file;
  bool cased = false;
  int64_t stride = 128, max_query = 64;
  std::string init;  // a checkpoint or run whose weights to begin with

  std::string method = "unit";  // none, loss-scale=N, auto-loss-scale, per-tensor=…, unit
  std::string scheme = "paper";
  std::string align = "default";  // or function, measure, none
  std::string precision = "fp8";
  std::string activations, weights, gradients, moment, matmul;  // over what precision says
  std::string matmul_overrides;                                 // "head=fp16,layer0/*=fp32"
  std::string weight_rounding;                                  // nearest or stochastic
  bool master_weights = false;

  std::string optimiser = "adam";  // sgd, adam, adamw, lamb
  double rate = 0;                 // 0: what suits the method
  double momentum = 0.9, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-7, weight_decay = 0;
  bool decay_vectors = true;  // biases and norms too
  std::string schedule = "half-life";
  int64_t warmup = 0, half_life = 0;  // 0: an eighth of the steps
  int64_t steps = 524288;             // 2^19
  int64_t accumulate = 1;
  // A step's batches are accumulate × ranks, whoever computes them: `ranks` is what the run was
  // started with, `world` the processes there are now.
  int64_t ranks = 0;                    // 0: as many as there are when the run begins
  int64_t world = 1;                    // no setting: a session finds it
  std::string reduce = "fp32";          // what gradients travel in between ranks: fp32, bf16, fp16
  std::string shard = "none";           // or optimiser: each rank keeps a share of its state
  std::string gather = "narrow";        // how weights come from their owners; or as they are stored
  double bucket = 32;                   // MB of gradients that travel together
  int64_t rank_timeout = 60;            // seconds
  std::string collectives = "needed";   // or always: one rank meets itself, as several would
  std::string recompute = "none";       // norms, activations, blocks
  std::string keep_attention = "auto";  // true, false; auto: as suits the device
  std::string dispatch = "measured";    // or none
  int64_t seed = 0;

  int64_t evaluate_every = 0;  // 0: an eighth of the steps
  int64_t evaluate_limit = 0;  // characters of validation text; 0: all
  int64_t checkpoint_every = 0;
  int64_t keep_checkpoints = 3;
  int64_t log_every = 1;
  std::string probe;        // tensors to record: all, none, ROLE, ROLE:NAME, NAME; empty: as train
  int64_t probe_every = 0;  // 0: an eighth of the steps
  int64_t monitor_every = 100;                              // 0: never
  double saturation_limit = 0.001, underflow_limit = 0.05;  // shares that are told
  bool demote = false;

  // Throws Error, with the nearest key, when there is none, or the text does not fit it.
  void set(std::string_view key, std::string_view text);
  // Several at once, in any order: `model` and `size`, which set others, come first.
  void set_all(std::span<const std::pair<std::string, std::string>> settings);
  // One JSON object of keys. Throws Error with file and key.
  static TrainConfig from_file(const std::string& path);
  static TrainConfig from_json(std::string_view json, const std::string& origin);
  std::string to_json() const;
  // Throws Error for settings that contradict each other or make no sense.
  void check() const;
  // Of that, what is about ranks.
  void check_ranks() const;

  // A run begins in so many processes.
  void begin_with(int64_t processes) {
    world = processes;
    if (ranks == 0 && world > 1) ranks = world;
  }
  // Batches whose gradients make one step, and those of them that one rank computes.
  int64_t parts() const { return accumulate * (ranks > 0 ? ranks : 1); }
  int64_t own_parts() const { return parts() / world; }

  // Whether a step's gradients go through collectives.
  bool meets_ranks() const { return world > 1 || collectives == "always"; }

  // Whether the model can be trained; others are layers to look at.
  bool reads_text() const;
  // Whether it is trained on pairs of texts by `sigma1 bert prepare`.
  bool reads_pairs() const { return model == "bert"; }
  // Whether it is trained on questions, SQuAD's.
  bool reads_questions() const { return model == "bert_squad"; }

  // What the settings amount to.
  Precision resolved_precision() const;
  Schedule resolved_schedule() const;
  // Steps between two of a kind, where 0 stands for an eighth of the run.
  int64_t interval(int64_t asked) const;
  ScalingOptions scaling() const;
  // BERT, as the paper trained it, computes what the plain model does.
  std::string resolved_align() const;
  bool is_u_mup() const { return size.is_u_mup(); }
};

struct ConfigKey {
  std::string_view name, help;
};
std::vector<ConfigKey> config_keys();

// A setting that two configs have otherwise, as JSON.
struct SettingDifference {
  std::string key, first, second;
};
std::vector<SettingDifference> differences(const TrainConfig& first, const TrainConfig& second);

// How scale is managed: the methods the paper compares.
struct Method {
  enum class Kind { none, loss_scale, auto_loss_scale, per_tensor, unit };
  Kind kind = Kind::none;
  double loss_scale = 1;
  CastScaling scaling = CastScaling::none;

  static Method parse(std::string_view text);
};

}  // namespace sigma1
