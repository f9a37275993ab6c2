// Out and in again; whether others compute the same of what goes out, tests/interop asks.
#include "sigma1/exchange/transformers_bert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/train/plain_model.h"
#include "tests/data/temporary_folder.h"
#include "tests/exchange/bert_example.h"

namespace sigma1 {
namespace {

constexpr int64_t kWords = 50;

// Of known tokens: what padding scores is nobody's business.
void expect_same_scores(const StoredModel& expected, const StoredModel& found) {
  Bindings inputs = bert_inputs(*forward_graph(expected.config, expected.alignment), kWords);
  auto before = bert_scores(expected, inputs), after = bert_scores(found, inputs);
  ASSERT_EQ(before.size(), after.size());
  for (const auto& [name, tensor] : before) {
    int64_t width = tensor.dim(-1);
    double size = 0, error = 0;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (i % width >= kWords) continue;
      size = std::max(size, std::fabs(tensor[i]));
      error = std::max(error, std::fabs(tensor[i] - after.at(name)[i]));
    }
    EXPECT_GT(size, 1e-3) << name;
    EXPECT_LT(error / size, 2e-6) << name;
  }
}

class TransformersBert : public TemporaryFolderTest {
 protected:
  std::filesystem::path folder() const { return folder_ / "out"; }
  void rewrite(const std::function<void(std::vector<StoredTensor>&)>& change) {
    SafetensorsFile file(folder() / "model.safetensors");
    std::vector<StoredTensor> tensors(file.tensors().begin(), file.tensors().end());
    change(tensors);
    write_safetensors(folder() / "model.safetensors", tensors);
  }
  std::string import_error(const TrainConfig& config) {
    return error_of([&] { read_transformers_bert(folder(), config); });
  }
};

TEST_F(TransformersBert, EveryMethodGoesOutAndIn) {
  for (const char* model : {"bert", "bert_squad"}) {
    for (const char* method : {"none", "unit"}) {
      for (const char* scheme : {"paper", "exact"}) {
        TrainConfig config = bert_config(model, method, scheme);
        config.size.attention_multiplier = 1.3;
        config.size.activation_multiplier = 0.7;
        config.size.residual = "running-mean";
        StoredModel sent = bert_example(config);
        write_transformers_bert(folder(), sent);
        expect_same_scores(sent, read_transformers_bert(folder(), config).model);
        TrainConfig plain = bert_config(model, "none");
        expect_same_scores(sent, read_transformers_bert(folder(), plain).model);
      }
    }
  }
}

// Others fine-tune what goes out: its numbers should be of the size that they are used to.
TEST_F(TransformersBert, NormsKeepTheirNumbers) {
  StoredModel sent = bert_example(bert_config("bert", "unit"));
  ParameterValues plain = to_plain(sent);
  int norms = 0;
  for (const auto& [name, numbers] : sent.parameters) {
    if (name.find("norm/") == std::string::npos) continue;
    EXPECT_EQ(plain.at(name), numbers) << name;
    ++norms;
  }
  EXPECT_EQ(norms, 12);
}

TEST_F(TransformersBert, AlignedJoinsAreFoldedToo) {
  TrainConfig config = bert_config("bert", "unit");
  Alignment alignment;
  std::shared_ptr<Graph> graph = scaled_model(config, {});
  for (const Node& node : graph->nodes()) {
    if (!node.attributes.get_or("residual", std::string()).empty() && node.inputs.size() == 2)
      alignment.weights[node.name] = {0.9, 0.2};
  }
  ASSERT_EQ(alignment.weights.size(), 4u);
  StoredModel sent = bert_example(config, alignment);
  write_transformers_bert(folder(), sent);
  expect_same_scores(sent, read_transformers_bert(folder(), bert_config("bert", "none")).model);
  expect_same_scores(sent, read_transformers_bert(folder(), config, alignment).model);
}

TEST_F(TransformersBert, WritesWhatTransformersLooksFor) {
  write_transformers_bert(folder(), bert_example(bert_config("bert", "unit")), bert_vocabulary(),
                          false);
  auto config = nlohmann::json::parse(read_file(folder() / "config.json"));
  EXPECT_EQ(config["architectures"][0], "BertForPreTraining");
  EXPECT_EQ(config["vocab_size"], kWords);
  EXPECT_EQ(config["max_position_embeddings"], 9);
  EXPECT_EQ(read_file(folder() / "vocab.txt"), bert_vocabulary());
  auto tokenizer = nlohmann::json::parse(read_file(folder() / "tokenizer_config.json"));
  EXPECT_EQ(tokenizer["do_lower_case"], false);
  SafetensorsFile file(folder() / "model.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.at("bert.encoder.layer.1.intermediate.dense.weight").shape, (Shape{20, 12}));
  EXPECT_EQ(file.at("bert.encoder.layer.0.attention.self.key.weight").shape, (Shape{12, 12}));
  EXPECT_EQ(file.at("bert.embeddings.word_embeddings.weight").shape, (Shape{kWords, 12}));
  EXPECT_EQ(file.at("cls.seq_relationship.weight").shape, (Shape{2, 12}));
}

TEST_F(TransformersBert, TakesNoOthersVocabulary) {
  StoredModel model = bert_example(bert_config("bert", "unit"));
  std::string error = error_of([&] { write_transformers_bert(folder(), model, "[UNK]\n"); });
  EXPECT_NE(error.find("expected the 50 tokens of the model, got 1"), std::string::npos) << error;
  EXPECT_FALSE(std::filesystem::exists(folder()));
}

TEST_F(TransformersBert, PaddingOfTheVocabularyIsNeverLikely) {
  TrainConfig config = bert_config("bert", "unit");
  write_transformers_bert(folder(), bert_example(config));
  StoredModel found = read_transformers_bert(folder(), config).model;
  EXPECT_EQ(found.config.size.vocabulary, 64);
  Bindings inputs = bert_inputs(*forward_graph(found.config, {}), kWords);
  Tensor scores = bert_scores(found, inputs).at("mlm_scores");
  for (int64_t i = kWords; i < 64; ++i) EXPECT_LT(scores[i], -99);
}

TEST_F(TransformersBert, ReadsOlderNamesAndEncodersWithoutHeads) {
  TrainConfig config = bert_config("bert_squad", "unit");
  StoredModel sent = bert_example(config);
  write_transformers_bert(folder(), sent);
  rewrite([](std::vector<StoredTensor>& tensors) {
    std::erase_if(tensors, [](const auto& each) { return each.name.starts_with("qa_"); });
    for (StoredTensor& tensor : tensors) {
      std::string& name = tensor.name;
      name = name.substr(std::string("bert.").size());
      if (size_t at = name.find("LayerNorm.weight"); at != std::string::npos)
        name.replace(at, std::string::npos, "LayerNorm.gamma");
      if (size_t at = name.find("LayerNorm.bias"); at != std::string::npos)
        name.replace(at, std::string::npos, "LayerNorm.beta");
    }
  });
  ReadBert read = read_transformers_bert(folder(), config);
  EXPECT_EQ(read.fresh, (std::vector<std::string>{"squad/weight", "squad/bias"}));
  // The encoder is what was sent: with the head that was sent, so are the scores.
  StoredModel with_head = read.model;
  for (const char* name : {"squad/weight", "squad/bias"})
    with_head.parameters[name] = sent.parameters.at(name);
  expect_same_scores(sent, with_head);
}

TEST_F(TransformersBert, SaysWhatDoesNotFit) {
  TrainConfig config = bert_config("bert", "unit");
  write_transformers_bert(folder(), bert_example(config));
  auto settings = nlohmann::json::parse(read_file(folder() / "config.json"));
  auto with = [&](const char* key, const nlohmann::json& value) {
    auto changed = settings;
    changed[key] = value;
    write_file(folder() / "config.json", changed.dump());
    return import_error(config);
  };
  EXPECT_NE(with("hidden_act", "relu").find("hidden_act"), std::string::npos);
  EXPECT_NE(with("layer_norm_eps", 1e-5).find("layer_norm_eps"), std::string::npos);
  EXPECT_NE(with("tie_word_embeddings", false).find("tie_word_embeddings"), std::string::npos);
  EXPECT_NE(with("is_decoder", true).find("is_decoder"), std::string::npos);
  EXPECT_NE(with("intermediate_size", 21).find("intermediate.dense"), std::string::npos);
  for (const char* size : {"hidden_size", "num_attention_heads", "vocab_size"}) {
    for (const nlohmann::json& value :
         {nlohmann::json("wide"), nlohmann::json(0), nlohmann::json(-8),
          nlohmann::json(uint64_t{1} << 63), nlohmann::json()}) {
      EXPECT_NE(with(size, value).find(size), std::string::npos) << size << value;
    }
  }
  EXPECT_NE(with("num_hidden_layers", 1).find("num_hidden_layers"), std::string::npos);
  EXPECT_NE(with("num_hidden_layers", 1 << 23).find("layer.8388607"), std::string::npos);
  write_file(folder() / "config.json", settings.dump());
  rewrite([](std::vector<StoredTensor>& tensors) {
    std::erase_if(tensors, [](const auto& t) { return t.name.ends_with("output.dense.bias"); });
  });
  EXPECT_NE(import_error(config).find("output.dense.bias"), std::string::npos);
  TrainConfig other;
  EXPECT_NE(import_error(other).find("char_lm"), std::string::npos);
}

TEST_F(TransformersBert, TakesNoNumbersThatAreNone) {
  TrainConfig config = bert_config("bert", "unit");
  write_transformers_bert(folder(), bert_example(config));
  std::vector<float> odd{0, 0, NAN};
  rewrite([&](std::vector<StoredTensor>& tensors) {
    StoredTensor& tensor = *std::ranges::find_if(
        tensors, [](const auto& t) { return t.name.ends_with("LayerNorm.bias"); });
    odd.resize(static_cast<size_t>(element_count(tensor.shape)));
    tensor.data = std::as_bytes(std::span(odd));
  });
  std::string told = import_error(config);
  EXPECT_NE(told.find("LayerNorm.bias: expected finite numbers, got nan as number 2"),
            std::string::npos)
      << told;
}

TEST_F(TransformersBert, SaysInWhatFormWeightsAre) {
  TrainConfig config = bert_config("bert", "unit");
  write_transformers_bert(folder(), bert_example(config));
  write_file(folder() / "pytorch_model.bin", "PK");
  EXPECT_NO_THROW(read_transformers_bert(folder(), config));
  std::filesystem::remove(folder() / "model.safetensors");
  EXPECT_NE(import_error(config).find("got pytorch_model.bin"), std::string::npos);
  write_file(folder() / "model.safetensors.index.json", "{}");
  EXPECT_NE(import_error(config).find("got model.safetensors.index.json"), std::string::npos);
}

TEST_F(TransformersBert, ACheckpointIsReadBack) {
  StoredModel sent = bert_example(bert_config("bert", "unit"), {});
  write_model(folder(), sent);
  StoredModel found = read_model(load_checkpoint(checkpoint_path(folder(), 0)));
  EXPECT_EQ(found.parameters, sent.parameters);
  EXPECT_EQ(found.config.to_json(), sent.config.to_json());
  EXPECT_TRUE(found.vocabulary == sent.vocabulary);
}

}  // namespace
}  // namespace sigma1
