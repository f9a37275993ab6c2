#include "sigma1/exchange/bert_names.h"

#include <fmt/format.h>

namespace sigma1 {
namespace {

class Names {
 public:
  void dense(const std::string& ours, const std::string& theirs, int64_t part = 0,
             int64_t parts = 1) {
    list.push_back({.ours = ours + "/weight",
                    .theirs = theirs + ".weight",
                    .turned = true,
                    .part = part,
                    .parts = parts});
    list.push_back(
        {.ours = ours + "/bias", .theirs = theirs + ".bias", .part = part, .parts = parts});
  }

  void norm(const std::string& ours, const std::string& theirs) {
    for (const char* each : {"weight", "bias"})
      list.push_back(
          {.ours = fmt::format("{}/{}", ours, each), .theirs = fmt::format("{}.{}", theirs, each)});
  }

  void embedding() {
    std::string theirs = "bert.embeddings.";
    list.push_back(
        {.ours = "embedding/token", .theirs = theirs + "word_embeddings.weight", .by_word = true});
    list.push_back({.ours = "embedding/position", .theirs = theirs + "position_embeddings.weight"});
    list.push_back(
        {.ours = "embedding/segment", .theirs = theirs + "token_type_embeddings.weight"});
    norm("embedding/norm", theirs + "LayerNorm");
  }

  void layer(int64_t i) {
    std::string ours = fmt::format("layer{}/", i);
    std::string theirs = fmt::format("bert.encoder.layer.{}.", i);
    int64_t part = 0;
    for (const char* each : {"query", "key", "value"})
      dense(ours + "attention/qkv", theirs + "attention.self." + each, part++, 3);
    dense(ours + "attention/out", theirs + "attention.output.dense");
    norm(ours + "attention_norm", theirs + "attention.output.LayerNorm");
    dense(ours + "ffn/up", theirs + "intermediate.dense");
    dense(ours + "ffn/down", theirs + "output.dense");
    norm(ours + "ffn_norm", theirs + "output.LayerNorm");
  }

  void pretraining_heads() {
    std::string theirs = "cls.predictions.";
    dense("mlm/dense", theirs + "transform.dense");
    norm("mlm/norm", theirs + "transform.LayerNorm");
    list.push_back({.ours = "mlm/bias", .theirs = theirs + "bias", .by_word = true});
    dense("pooler", "bert.pooler.dense");
    dense("nsp", "cls.seq_relationship");
  }

  std::vector<BertName> list;
};

}  // namespace

std::vector<BertName> bert_names(std::string_view model, int64_t depth) {
  Names names;
  names.embedding();
  for (int64_t i = 0; i < depth; ++i) names.layer(i);
  if (model == "bert") {
    names.pretraining_heads();
  } else {
    names.dense("squad", "qa_outputs");
  }
  return names.list;
}

}  // namespace sigma1
