#include "sigma1/exchange/transformers_bert.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "sigma1/backend/reference.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/data/word_piece.h"
#include "sigma1/exchange/bert_names.h"
#include "sigma1/train/plain_model.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kNormEpsilonOfBert = 1e-12;
constexpr float kNeverLikely = -100;       // of a logit: e^-100 is nothing beside any other
constexpr int64_t kLargestSize = 1 << 24;  // sizes beyond would not multiply in 64 bits

// A matrix of ours and a part of its columns as theirs, or the other way.
struct Part {
  int64_t rows, columns, first, width;
  bool turned;

  Part(const BertName& name, const Shape& ours)
      : rows(ours.size() == 2 ? ours[0] : 1),
        columns(ours.back()),
        first(columns / name.parts * name.part),
        width(columns / name.parts),
        turned(name.turned) {}

  template <class Visit>
  void for_each(Visit visit) const {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < width; ++c) {
        int64_t theirs = turned ? c * rows + r : r * width + c;
        visit(static_cast<size_t>(r * columns + first + c), static_cast<size_t>(theirs));
      }
    }
  }
};

std::map<std::string, Shape> parameter_shapes(const TrainConfig& config) {
  std::map<std::string, Shape> shapes;
  std::shared_ptr<Graph> graph = forward_graph(plain_config(config), {});
  for (Value parameter : graph->parameters())
    shapes[graph->node(parameter.node).name] = parameter.shape();
  return shapes;
}

void expect_bert(const TrainConfig& config) {
  if (config.model != "bert" && config.model != "bert_squad")
    throw Error("transformers: expected model bert or bert_squad, got '{}'", config.model);
}

// Theirs of ours: without padding of the vocabulary.
Shape their_shape(const BertName& name, Shape shape, int64_t words) {
  if (name.by_word) shape[0] = words;
  shape.back() /= name.parts;
  if (name.turned) std::swap(shape[0], shape[1]);
  return shape;
}

// Another's would give other tokens their ids, and some ids no token.
void expect_vocabulary_of(const StoredModel& model, const std::string& vocabulary) {
  size_t expected = model.vocabulary.known(), got = WordPiece(vocabulary, LetterCase::lower).size();
  if (got != expected)
    throw Error("vocabulary: expected the {} tokens of the model, got {}", expected, got);
}

std::string config_json(const StoredModel& model) {
  ModelConfig size = model.config.size.resolved();
  bool answers = model.config.model == "bert_squad";
  return Json{{"architectures", {answers ? "BertForQuestionAnswering" : "BertForPreTraining"}},
              {"model_type", "bert"},
              {"vocab_size", model.vocabulary.known()},
              {"hidden_size", size.width},
              {"num_hidden_layers", size.depth},
              {"num_attention_heads", size.heads},
              {"intermediate_size", size.hidden},
              {"hidden_act", "gelu"},
              {"hidden_dropout_prob", 0.1},
              {"attention_probs_dropout_prob", 0.1},
              {"max_position_embeddings", size.positions},
              {"type_vocab_size", 2},
              {"initializer_range", 0.02},
              {"layer_norm_eps", kNormEpsilonOfBert},
              {"pad_token_id", 0},
              {"position_embedding_type", "absolute"},
              {"torch_dtype", "float32"}}
             .dump(2) +
         "\n";
}

Json parse_config(const fs::path& path) {
  Json config = Json::parse(read_file(path.string()), nullptr, false);
  if (!config.is_object()) throw Error("{}: expected an object of JSON", path.string());
  return config;
}

// A folder may hold the same weights in a form that is not read here.
fs::path weights_in(const fs::path& source) {
  if (!fs::is_directory(source)) return source;
  fs::path path = source / "model.safetensors";
  for (const char* other : {"model.safetensors.index.json", "pytorch_model.bin",
                            "pytorch_model.bin.index.json", "tf_model.h5", "flax_model.msgpack"}) {
    if (!fs::exists(path) && fs::exists(source / other))
      throw Error("{}: expected all weights in one model.safetensors, got {}", source.string(),
                  other);
  }
  return path;
}

// Only what sizes do not say, and what is computed otherwise here.
void check_function(const Json& config, const fs::path& path, bool guesses_tokens) {
  auto expect = [&](const char* key, const Json& expected) {
    Json found = config.value(key, expected);
    if (found != expected)
      throw Error("{}: {}: expected {}, got {}", path.string(), key, expected.dump(), found.dump());
  };
  expect("model_type", "bert");
  expect("hidden_act", "gelu");
  expect("layer_norm_eps", kNormEpsilonOfBert);
  expect("position_embedding_type", "absolute");
  expect("type_vocab_size", 2);
  if (guesses_tokens) expect("tie_word_embeddings", true);
  expect("is_decoder", false);
}

int64_t size_of(const Json& theirs, const char* key, const fs::path& path) {
  Json found = theirs.value(key, Json());
  bool fits = found.is_number_unsigned() && found >= 1 && found <= kLargestSize;
  if (!fits)
    throw Error("{}: {}: expected a whole number from 1 to {}, got {}", path.string(), key,
                kLargestSize, found.is_null() ? "none" : found.dump());
  return found.get<int64_t>();
}

void take_sizes(TrainConfig& config, const Json& theirs, const fs::path& path) {
  auto size = [&](const char* key) { return size_of(theirs, key, path); };
  config.size.width = size("hidden_size");
  config.size.depth = size("num_hidden_layers");
  config.size.heads = size("num_attention_heads");
  config.size.hidden = size("intermediate_size");
  config.size.positions = size("max_position_embeddings");
  config.size.time = std::min(config.size.time, config.size.positions);
  config.size.named.clear();
}

// As newer files call it, and as those converted from TensorFlow or of the encoder alone do.
const StoredTensor* find_tensor(const SafetensorsFile& file, const std::string& name) {
  std::vector<std::string> names{name};
  auto replace = [&](std::string_view ending, std::string_view by) {
    if (name.find("LayerNorm") == std::string::npos || !name.ends_with(ending)) return;
    names.push_back(name.substr(0, name.size() - ending.size()) + std::string(by));
  };
  replace("weight", "gamma");
  replace("bias", "beta");
  if (size_t count = names.size(); name.starts_with("bert.")) {
    for (size_t i = 0; i < count; ++i) names.push_back(names[i].substr(5));
  }
  for (const std::string& each : names) {
    if (const StoredTensor* found = file.find(each)) return found;
  }
  return nullptr;
}

[[noreturn]] void complain_of_no_tensor(const SafetensorsFile& file, const std::string& name) {
  throw Error("{}: expected a tensor '{}', and there is none", file.path().string(), name);
}

// As many as the config says, neither fewer nor more. Before a graph of them is made: a number that
// is wrong may be of any size.
void expect_layers(const SafetensorsFile& file, int64_t depth, const fs::path& config) {
  auto weight_of = [](int64_t i) {
    return fmt::format("bert.encoder.layer.{}.output.dense.weight", i);
  };
  if (find_tensor(file, weight_of(depth - 1)) == nullptr)
    complain_of_no_tensor(file, weight_of(depth - 1));
  if (find_tensor(file, weight_of(depth)) != nullptr)
    throw Error("{}: num_hidden_layers: expected all layers of {}, got {} of them", config.string(),
                file.path().string(), depth);
}

bool is_head(const BertName& name) {
  return !name.theirs.starts_with("bert.") || name.theirs.starts_with("bert.pooler");
}

class Reader {
 public:
  Reader(const SafetensorsFile& file, const StoredModel& model, std::vector<std::string>& fresh)
      : file_(file), model_(model), fresh_(fresh), shapes_(parameter_shapes(model.config)) {}

  ParameterValues read() {
    for (const BertName& name : bert_names(model_.config.model, model_.config.size.depth))
      take(name);
    start_the_rest();
    return std::move(plain_);
  }

 private:
  void take(const BertName& name) {
    const StoredTensor* tensor = find_tensor(file_, name.theirs);
    if (tensor == nullptr) {
      if (is_head(name)) return;
      complain_of_no_tensor(file_, name.theirs);
    }
    const Shape& ours = shapes_.at(name.ours);
    Shape expected = their_shape(name, ours, static_cast<int64_t>(model_.vocabulary.known()));
    if (tensor->shape != expected)
      throw Error("{}: {}: expected {}, got {}", file_.path().string(), tensor->name,
                  to_string(expected), to_string(tensor->shape));
    std::vector<float> theirs = tensor_numbers(*tensor, file_.path().string());
    auto odd = std::ranges::find_if_not(theirs, [](float x) { return std::isfinite(x); });
    if (odd != theirs.end())
      throw Error("{}: {}: expected finite numbers, got {} as number {}", file_.path().string(),
                  tensor->name, *odd, odd - theirs.begin());
    std::vector<float>& numbers = plain_[name.ours];
    bool padded = ours.size() == 1 && name.by_word;
    numbers.resize(static_cast<size_t>(element_count(ours)), padded ? kNeverLikely : 0);
    if (name.by_word) {
      std::copy(theirs.begin(), theirs.end(), numbers.begin());
    } else {
      Part(name, ours).for_each([&](size_t own, size_t other) { numbers[own] = theirs[other]; });
    }
  }

  // A head that is to be trained: as the plain model starts.
  void start_the_rest() {
    std::shared_ptr<Graph> graph = forward_graph(plain_config(model_.config), {});
    for (Value parameter : graph->parameters()) {
      const Node& node = graph->node(parameter.node);
      if (plain_.contains(node.name)) continue;
      Tensor start = initial_value(node, static_cast<uint64_t>(model_.config.seed));
      plain_[node.name] = {start.data.begin(), start.data.end()};
      fresh_.push_back(node.name);
    }
  }

  const SafetensorsFile& file_;
  const StoredModel& model_;
  std::vector<std::string>& fresh_;
  std::map<std::string, Shape> shapes_;
  ParameterValues plain_;
};

}  // namespace

void write_transformers_bert(const fs::path& folder, const StoredModel& model,
                             const std::string& vocabulary, bool lower_case) {
  expect_bert(model.config);
  if (!vocabulary.empty()) expect_vocabulary_of(model, vocabulary);
  ParameterValues plain = to_plain(model);
  std::map<std::string, Shape> shapes = parameter_shapes(model.config);
  std::vector<StoredTensor> tensors;
  std::vector<std::vector<float>> contents;
  for (const BertName& name : bert_names(model.config.model, model.config.size.depth)) {
    const std::vector<float>& ours = plain.at(name.ours);
    Shape shape =
        their_shape(name, shapes.at(name.ours), static_cast<int64_t>(model.vocabulary.known()));
    auto count = static_cast<size_t>(element_count(shape));
    std::vector<float>& theirs = contents.emplace_back(count);
    if (name.by_word) {
      std::copy(ours.begin(), ours.begin() + static_cast<ptrdiff_t>(count), theirs.begin());
    } else {
      Part(name, shapes.at(name.ours)).for_each([&](size_t own, size_t other) {
        theirs[other] = ours[own];
      });
    }
    tensors.push_back({name.theirs, "F32", shape, std::as_bytes(std::span(theirs))});
  }
  std::error_code cause;
  fs::create_directories(folder, cause);
  if (cause) throw Error("cannot make the folder {}: {}", folder.string(), cause.message());
  write_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
  write_file((folder / "config.json").string(), config_json(model));
  if (vocabulary.empty()) return;
  write_file((folder / "vocab.txt").string(), vocabulary);
  Json tokenizer{{"tokenizer_class", "BertTokenizer"}, {"do_lower_case", lower_case}};
  write_file((folder / "tokenizer_config.json").string(), tokenizer.dump(2) + "\n");
}

ReadBert read_transformers_bert(const fs::path& source, const TrainConfig& config,
                                const Alignment& alignment) {
  expect_bert(config);
  fs::path path = weights_in(source);
  fs::path config_path = path.parent_path() / "config.json";
  SafetensorsFile file(path);
  Json theirs = parse_config(config_path);
  check_function(theirs, config_path, config.model == "bert");
  ReadBert read{{.config = config, .vocabulary = {}, .alignment = alignment, .parameters = {}}, {}};
  StoredModel& model = read.model;
  take_sizes(model.config, theirs, config_path);
  expect_layers(file, model.config.size.depth, config_path);
  int64_t words = size_of(theirs, "vocab_size", config_path);
  model.vocabulary = Vocabulary::of_ids(words);
  model.config.tokens.kind = "ids";
  model.config.tokens.vocabulary = words;
  model.config.size.vocabulary = static_cast<int64_t>(model.vocabulary.size());
  ParameterValues plain = Reader(file, model, read.fresh).read();
  model.parameters = from_plain(model.config, alignment, plain);
  return read;
}

}  // namespace sigma1
