#include "sigma1/train/train_config.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <variant>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/base/text.h"
#include "sigma1/data/utf8.h"

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
using Member = T& (*)(TrainConfig&);
using AnyMember = std::variant<Member<std::string>, Member<int64_t>, Member<double>, Member<bool>>;

struct Field {
  std::string_view name, help;
  AnyMember member;
};

template <auto member>
auto& own(TrainConfig& config) {
  return config.*member;
}
template <auto member>
auto& of_tokens(TrainConfig& config) {
  return config.tokens.*member;
}
template <auto member>
auto& of_model(TrainConfig& config) {
  return config.size.*member;
}

const Field kFields[] = {
    {"model", "model by name", own<&TrainConfig::model>},
    {"context", "token mixing of char_lm: attention, conv, rnn", of_model<&ModelConfig::context>},
    {"norm", "pre, post, none", of_model<&ModelConfig::norm>},
    {"residual", "default, fixed (tau), running-mean", of_model<&ModelConfig::residual>},
    {"tau", "weight of a fixed residual's branch", of_model<&ModelConfig::tau>},
    {"block", "of gpt: gpt2, llama", of_model<&ModelConfig::block>},
    {"size",
     "of gpt: 124M, 355M, 774M, 1.5B set width, depth, heads, ffn and time as GPT-2 has them; of "
     "bert: base, large set all but time",
     of_model<&ModelConfig::named>},
    {"depth", "layers", of_model<&ModelConfig::depth>},
    {"width", "hidden size", of_model<&ModelConfig::width>},
    {"ffn", "size of the feed-forward layers; of gpt and bert, 0: four times the width",
     of_model<&ModelConfig::hidden>},
    {"heads", "attention heads; of gpt and bert, 0: one for each 64 of the width",
     of_model<&ModelConfig::heads>},
    {"kv-heads", "of gpt: heads of keys and values, each for a group of heads; 0: as many as heads",
     of_model<&ModelConfig::kv_heads>},
    {"positions", "of bert: rows of its table of positions, whatever the length of sequences",
     of_model<&ModelConfig::positions>},
    {"predictions", "of bert: tokens of a sequence that are masked and guessed, at most",
     of_model<&ModelConfig::predictions>},
    {"attention-multiplier", "factor of attention's logits: the inverse of its temperature",
     of_model<&ModelConfig::attention_multiplier>},
    {"activation-multiplier", "factor of the activation's input: gelu's or silu's",
     of_model<&ModelConfig::activation_multiplier>},
    {"parametrization",
     "of unit scaling: unit, or u-mup for gpt, whose best rate holds at any width",
     of_model<&ModelConfig::parametrization>},
    {"residual-multiplier", "of u-mup: what all layers add, beside what they are given",
     of_model<&ModelConfig::residual_multiplier>},
    {"residual-attention-ratio", "of u-mup: what attention adds, beside the feed-forward layers",
     of_model<&ModelConfig::residual_attention_ratio>},
    {"loss-multiplier", "of u-mup: factor of the logits that the loss sees",
     of_model<&ModelConfig::loss_multiplier>},
    {"batch", "sequences a step", of_model<&ModelConfig::batch>},
    {"time", "tokens of a sequence", of_model<&ModelConfig::time>},
    {"masked", "tokens of a sequence that are read but not counted", own<&TrainConfig::context>},
    {"train",
     "training text: a file, a .zst or a folder; or a *.bin file of token ids; of bert: a file by "
     "`sigma1 bert prepare`; of bert_squad: SQuAD's JSON",
     own<&TrainConfig::train_text>},
    {"valid", "validation text; without one, the last tenth of the training text",
     own<&TrainConfig::valid_text>},
    {"tokens", "of the texts: characters, bytes, ids; auto: ids of a *.bin file, else characters",
     of_tokens<&Tokens::kind>},
    {"vocabulary",
     "ids of a *.bin file; 0: 50257, as GPT-2. Models round it up to a multiple of 64",
     of_tokens<&Tokens::vocabulary>},
    {"vocab-file", "of bert_squad: vocab.txt, a token a line", own<&TrainConfig::vocab_file>},
    {"cased", "of bert_squad: the vocabulary has upper case", own<&TrainConfig::cased>},
    {"stride", "of bert_squad: tokens from a window's start to the next's",
     own<&TrainConfig::stride>},
    {"max-query", "of bert_squad: tokens of a question; longer ones are cut",
     own<&TrainConfig::max_query>},
    {"init", "checkpoint or run whose weights to begin with, the optimiser afresh",
     own<&TrainConfig::init>},
    {"method", "none, loss-scale=N, auto-loss-scale, per-tensor=current|delayed, unit",
     own<&TrainConfig::method>},
    {"scheme", "of unit scaling: paper, exact", own<&TrainConfig::scheme>},
    {"align",
     "what unit scaling takes over of the plain model: function (all), measure (residual "
     "weights), none; default: function for BERT, measure for others",
     own<&TrainConfig::align>},
    {"precision", "fp32, bf16, fp16, fp8", own<&TrainConfig::precision>},
    {"activations", "format of activations, over precision", own<&TrainConfig::activations>},
    {"weights", "format of weights, over precision", own<&TrainConfig::weights>},
    {"gradients", "format of gradients, over precision", own<&TrainConfig::gradients>},
    {"moment", "format of the optimiser's first moment, over precision", own<&TrainConfig::moment>},
    {"matmul", "what matrix products are cast to: stored, fp8 or a format, over precision",
     own<&TrainConfig::matmul>},
    {"matmul-overrides", "products that differ: NAME=FORMAT,…",
     own<&TrainConfig::matmul_overrides>},
    {"dispatch",
     "of products in 8 bits: measured, those that a GPU computes no faster read 16; none",
     own<&TrainConfig::dispatch>},
    {"weight-rounding", "of stored weights: nearest, stochastic",
     own<&TrainConfig::weight_rounding>},
    {"master-weights", "keep an fp32 copy of the weights", own<&TrainConfig::master_weights>},
    {"optimiser", "sgd, adam, adamw, lamb", own<&TrainConfig::optimiser>},
    {"rate", "learning rate; 0: what suits method and optimiser", own<&TrainConfig::rate>},
    {"momentum", "of sgd", own<&TrainConfig::momentum>},
    {"beta1", "of adam", own<&TrainConfig::beta1>},
    {"beta2", "of adam", own<&TrainConfig::beta2>},
    {"epsilon", "of adam", own<&TrainConfig::epsilon>},
    {"weight-decay", "decoupled for adamw and lamb; of u-mup also independent of the rate",
     own<&TrainConfig::weight_decay>},
    {"decay-vectors", "weight decay of biases and norms too", own<&TrainConfig::decay_vectors>},
    {"schedule", "half-life, linear, cosine, constant", own<&TrainConfig::schedule>},
    {"warmup", "steps of linear warm-up", own<&TrainConfig::warmup>},
    {"half-life", "steps to half the rate; 0: an eighth of all", own<&TrainConfig::half_life>},
    {"steps", "steps to train", own<&TrainConfig::steps>},
    {"accumulate", "batches of one rank whose gradients make one step",
     own<&TrainConfig::accumulate>},
    {"ranks", "processes whose gradients make one step; 0: as many as mpirun starts",
     own<&TrainConfig::ranks>},
    {"reduce", "what gradients travel in between ranks: fp32, bf16, fp16",
     own<&TrainConfig::reduce>},
    {"shard", "what ranks keep a share of: none, optimiser", own<&TrainConfig::shard>},
    {"gather", "how weights come from their owners: narrow, as products read them, or stored",
     own<&TrainConfig::gather>},
    {"bucket", "MB of gradients that travel together between ranks", own<&TrainConfig::bucket>},
    {"rank-timeout", "seconds without an answer after which a rank is lost and all end",
     own<&TrainConfig::rank_timeout>},
    {"collectives", "needed, or always: one rank too sums gradients as several do, to be timed",
     own<&TrainConfig::collectives>},
    {"recompute", "what backward computes again, to hold less: none, norms, activations, blocks",
     own<&TrainConfig::recompute>},
    {"keep-attention",
     "forward keeps attention's sums and result for backward: true, false; auto: where faster",
     own<&TrainConfig::keep_attention>},
    {"seed", "of weights, batches and rounding", own<&TrainConfig::seed>},
    {"evaluate-every", "steps between validations; 0: an eighth of all",
     own<&TrainConfig::evaluate_every>},
    {"evaluate-limit", "tokens of validation text; 0: all", own<&TrainConfig::evaluate_limit>},
    {"checkpoint-every", "steps between checkpoints; 0: as validations",
     own<&TrainConfig::checkpoint_every>},
    {"keep", "checkpoints kept", own<&TrainConfig::keep_checkpoints>},
    {"log-every", "steps between lines of metrics", own<&TrainConfig::log_every>},
    {"probe",
     "tensors whose scales are recorded: all, none, or a list of ROLE, ROLE:NAME, NAME; "
     "default: all, in sweeps none",
     own<&TrainConfig::probe>},
    {"probe-every", "steps between records of scales, beside the first; 0: an eighth of all",
     own<&TrainConfig::probe_every>},
    {"monitor-every", "steps between looks at what formats lose; 0: never",
     own<&TrainConfig::monitor_every>},
    {"saturation-limit", "share of a tensor's numbers that may be too large before it is told",
     own<&TrainConfig::saturation_limit>},
    {"underflow-limit", "share of a tensor's numbers that may become zero before it is told",
     own<&TrainConfig::underflow_limit>},
    {"demote", "move products whose inputs saturate from 8 bits to fp16",
     own<&TrainConfig::demote>},
};

const Field& find_field(std::string_view key) {
  std::vector<std::string> names;
  for (const Field& field : kFields) {
    if (field.name == key) return field;
    names.emplace_back(field.name);
  }
  std::string nearest = nearest_name(key, names);
  throw Error("unknown setting '{}'{}; `sigma1 train --keys` lists all", key,
              nearest.empty() ? "" : fmt::format(" (did you mean {}?)", nearest));
}

void assign(std::string& member, std::string_view key, std::string_view text) {
  // Config files and checkpoints are JSON, which holds nothing else; names of files may.
  if (auto fault = find_utf8_fault(text))
    throw Error("{}: expected UTF-8, got {}", key, fault->reason);
  member = text;
}

void assign(double& member, std::string_view key, std::string_view text) {
  std::optional<double> number = parse_number(text);
  if (!number || !std::isfinite(*number)) {
    throw Error("{}: expected a number, got '{}'", key, text);
  }
  member = *number;
}

void assign(int64_t& member, std::string_view key, std::string_view text) {
  constexpr double kLargest = 9e15;  // whole in double, so nothing is lost on the way
  std::optional<double> number = parse_number(text);
  if (!number || std::floor(*number) != *number || std::fabs(*number) > kLargest) {
    throw Error("{}: expected a whole number, got '{}'", key, text);
  }
  member = static_cast<int64_t>(*number);
}

void assign(bool& member, std::string_view key, std::string_view text) {
  if (text != "true" && text != "false") {
    throw Error("{}: expected true or false, got '{}'", key, text);
  }
  member = text == "true";
}

// What a config file says for a key, as --set would say it.
std::string setting_text(std::string_view key, const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  bool is_word = std::holds_alternative<Member<std::string>>(find_field(key).member);
  if (is_word || !(value.is_number() || value.is_boolean())) {
    throw Error("{}: expected a {}, got {}", key, is_word ? "word" : "number, true or false",
                value.dump());
  }
  return value.dump();
}

Json parse_json(std::string_view json, const std::string& origin) {
  std::set<std::string> keys;
  // The parser alone would let the last of two equal keys win.
  auto expect_once = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth == 1 && event == Json::parse_event_t::key &&
        !keys.insert(parsed.get<std::string>()).second) {
      throw Error("{}: expected each setting once, got '{}' twice", origin,
                  parsed.get<std::string>());
    }
    return true;
  };
  try {
    return Json::parse(json, expect_once, true, true);
  } catch (const Json::exception& error) {
    std::string_view text = error.what();  // "[json.exception.parse_error.101] parse error at …"
    throw Error("{}: {}", origin, text.substr(text.find(' ') + 1));
  }
}

}  // namespace

std::vector<ConfigKey> config_keys() {
  std::vector<ConfigKey> keys;
  for (const Field& field : kFields) keys.push_back({field.name, field.help});
  return keys;
}

std::vector<SettingDifference> differences(const TrainConfig& first, const TrainConfig& second) {
  Json of_first = Json::parse(first.to_json()), of_second = Json::parse(second.to_json());
  std::vector<SettingDifference> result;
  for (const auto& [key, value] : of_first.items()) {
    if (of_second[key] != value) result.push_back({key, value.dump(), of_second[key].dump()});
  }
  return result;
}

void TrainConfig::set(std::string_view key, std::string_view text) {
  std::visit([&](auto member) { assign(member(*this), key, text); }, find_field(key).member);
  // Another model starts from its own sizes.
  if (key == "model") size = find_model(text).defaults();
  if (key == "size" && !text.empty()) size.set_named(text);
}

void TrainConfig::set_all(std::span<const std::pair<std::string, std::string>> settings) {
  for (std::string_view first : {"model", "size"}) {
    for (const auto& [key, text] : settings) {
      if (key == first) set(key, text);
    }
  }
  for (const auto& [key, text] : settings) {
    if (key != "model" && key != "size") set(key, text);
  }
}

TrainConfig TrainConfig::from_file(const std::string& path) {
  return from_json(read_file(path), path);
}

TrainConfig TrainConfig::from_json(std::string_view json, const std::string& origin) {
  Json object = parse_json(json, origin);
  if (!object.is_object()) throw Error("{}: expected a JSON object of settings", origin);
  TrainConfig config;
  try {
    std::vector<std::pair<std::string, std::string>> settings;
    for (const auto& [key, value] : object.items()) {
      settings.emplace_back(key, setting_text(key, value));
    }
    config.set_all(settings);
  } catch (const Error& error) {
    throw Error("{}: {}", origin, error.what());
  }
  return config;
}

std::string TrainConfig::to_json() const {
  Json object = Json::object();
  TrainConfig copy = *this;
  for (const Field& field : kFields) {
    std::visit([&](auto member) { object[std::string(field.name)] = member(copy); }, field.member);
  }
  return object.dump(2);
}

}  // namespace sigma1
