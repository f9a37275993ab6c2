#include "tests/interop/bert_files.h"

#include <cstring>

#include "sigma1/base/error.h"
#include "sigma1/exchange/transformers_bert.h"
#include "tests/exchange/bert_example.h"
#include "tests/interop/example_tensors.h"

namespace sigma1 {
namespace {

ExampleTensors example_of(const Bindings& inputs, const std::map<std::string, Tensor>& scores) {
  ExampleTensors tensors;
  for (const auto& [input, tensor] : inputs)
    tensors.add(input, tensor,
                input == "padding" || input == "masked_weights" ? Kind::real : Kind::index);
  for (const auto& [output, tensor] : scores) tensors.expect(output, tensor);
  return tensors;
}

Bindings read_inputs(const SafetensorsFile& file) {
  Bindings inputs;
  for (const StoredTensor& tensor : file.tensors()) {
    std::vector<int64_t> ids(static_cast<size_t>(element_count(tensor.shape)));
    if (tensor.dtype != "I64")
      throw Error("{}: {}: expected I64, got {}", file.path().string(), tensor.name, tensor.dtype);
    std::memcpy(ids.data(), tensor.data.data(), tensor.data.size());
    inputs[tensor.name] = Tensor(tensor.shape, {ids.begin(), ids.end()});
  }
  return inputs;
}

}  // namespace

void write_bert_scores(const std::string& folder) {
  Bindings inputs = read_inputs(SafetensorsFile(folder + "/inputs.safetensors"));
  auto scores = engine_scores(load_checkpoint(checkpoint_path(folder, 0)), inputs);
  example_of(inputs, scores).write(folder + "/example.safetensors");
}

void write_bert_examples(const std::string& folder) {
  for (const char* model : {"bert", "bert_squad"}) {
    for (const char* method : {"none", "unit"}) {
      TrainConfig config = bert_config(model, method);
      config.size.attention_multiplier = 1.3;
      config.size.activation_multiplier = 0.7;
      StoredModel example = bert_example(config);
      auto words = static_cast<int64_t>(example.vocabulary.known());
      std::string name = fmt::format("{}/{}_{}", folder, model, method);
      write_transformers_bert(name, example);
      std::shared_ptr<Graph> graph = forward_graph(config, {});
      Bindings inputs = bert_inputs(*graph, words);
      example_of(inputs, bert_scores(example, inputs)).write(name + "/example.safetensors");
    }
  }
}

}  // namespace sigma1
