// What transformers computed once, of weights that are a formula of their names, computed here: so
// that it stays true where there is no torch. make_bert_reference.py writes the file.
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sigma1/base/file.h"
#include "sigma1/exchange/transformers_bert.h"
#include "tests/data/temporary_folder.h"
#include "tests/exchange/bert_example.h"

namespace sigma1 {
namespace {

using Json = nlohmann::json;

// As make_bert_reference.py has it.
std::vector<float> numbers_of(const std::string& name, int64_t count) {
  uint32_t start = 2166136261;
  for (char byte : name) start = (start ^ static_cast<uint8_t>(byte)) * 16777619;
  float centre = name.ends_with("LayerNorm.weight") ? 0.5F : -0.5F;
  std::vector<float> numbers;
  for (uint32_t i = 0; i < static_cast<uint32_t>(count); ++i) {
    uint32_t x = (start + i) * 2654435761;
    x = (x ^ (x >> 15)) * 2246822519;
    x ^= x >> 13;
    numbers.push_back(static_cast<float>(x >> 8) * 0x1p-24F + centre);
  }
  return numbers;
}

class BertReference : public TemporaryFolderTest {
 protected:
  const Json reference_ = Json::parse(read_file(SIGMA1_BERT_REFERENCE));

  int64_t size(const char* key) const { return reference_.at("config").at(key); }

  TrainConfig config(const std::string& model, const std::string& method) const {
    TrainConfig config = bert_config(model, method);
    const Json& tokens = reference_.at("inputs").at("tokens");
    config.size.batch = static_cast<int64_t>(tokens.size());
    config.size.time = static_cast<int64_t>(tokens[0].size());
    config.size.predictions =
        static_cast<int64_t>(reference_.at("inputs").at("masked_positions")[0].size());
    return config;
  }

  // The folder that transformers would have saved: names and shapes are those of our export, whose
  // numbers are replaced.
  std::filesystem::path save(const std::string& model) const {
    TrainConfig sizes = config(model, "none");
    sizes.size.width = size("hidden_size");
    sizes.size.hidden = size("intermediate_size");
    sizes.size.depth = size("num_hidden_layers");
    sizes.size.heads = size("num_attention_heads");
    sizes.size.positions = size("max_position_embeddings");
    StoredModel example = bert_example(sizes);
    example.vocabulary = Vocabulary::of_ids(size("vocab_size"));
    std::filesystem::path folder = folder_ / model, file = folder / "model.safetensors";
    write_transformers_bert(folder, example);
    std::vector<StoredTensor> tensors;
    std::vector<std::vector<float>> contents;
    SafetensorsFile exported(file);
    for (const StoredTensor& each : exported.tensors()) {
      contents.push_back(numbers_of(each.name, element_count(each.shape)));
      tensors.push_back({each.name, "F32", each.shape, std::as_bytes(std::span(contents.back()))});
    }
    write_safetensors(file, tensors);
    write_file(folder / "config.json", reference_.at("config").dump());
    return folder;
  }

  // Beside those of the file, what only losses read.
  Bindings inputs(const StoredModel& model) const {
    Bindings inputs = bert_inputs(*forward_graph(model.config, model.alignment), 1);
    for (const auto& [name, rows] : reference_.at("inputs").items()) {
      std::vector<double> numbers;
      for (const Json& row : rows) {
        for (double number : row) numbers.push_back(number);
      }
      auto width = static_cast<int64_t>(rows[0].size());
      inputs[name] = Tensor({static_cast<int64_t>(rows.size()), width}, numbers);
    }
    return inputs;
  }

  // Relative to the largest; what padding of the vocabulary scores is nobody's business.
  void expect_scores(const std::string& model, const std::map<std::string, Tensor>& found) const {
    const Json& expected = reference_.at("scores").at(model);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [name, tensor] : found) {
      std::vector<double> theirs = expected.at(name);
      auto rows = tensor.count() / tensor.dim(-1);
      auto width = static_cast<int64_t>(theirs.size()) / rows;
      ASSERT_EQ(width, name == "mlm_scores" ? size("vocab_size") : tensor.dim(-1)) << name;
      double largest = 0, error = 0;
      for (int64_t i = 0; i < rows * width; ++i) {
        double their = theirs[static_cast<size_t>(i)];
        double our = tensor[i / width * tensor.dim(-1) + i % width];
        largest = std::max(largest, std::fabs(their));
        error = std::max(error, std::fabs(our - their));
      }
      EXPECT_GT(largest, 0.5) << name;
      EXPECT_LT(error / largest, 1e-4) << model << " " << name;
    }
  }
};

TEST_F(BertReference, ImportedModelsScoreAsInTransformers) {
  for (const char* model : {"bert", "bert_squad"}) {
    std::filesystem::path folder = save(model);
    for (const char* method : {"none", "unit"}) {
      SCOPED_TRACE(method);
      ReadBert read = read_transformers_bert(folder, config(model, method));
      ASSERT_TRUE(read.fresh.empty()) << read.fresh.front();
      expect_scores(model, bert_scores(read.model, inputs(read.model)));
      write_model(folder_ / "checkpoint", read.model);
      Checkpoint checkpoint = load_checkpoint(checkpoint_path(folder_ / "checkpoint", 0));
      expect_scores(model, engine_scores(checkpoint, inputs(read.model)));
    }
  }
}

}  // namespace
}  // namespace sigma1
