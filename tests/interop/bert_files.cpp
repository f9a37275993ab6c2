#include "tests/interop/bert_files.h"

#include "sigma1/base/error.h"
#include "sigma1/exchange/transformers_bert.h"
#include "tests/exchange/bert_example.h"
#include "tests/interop/example_tensors.h"

namespace sigma1 {

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
      ExampleTensors tensors;
      for (const auto& [input, tensor] : inputs)
        tensors.add(input, tensor,
                    input == "padding" || input == "masked_weights" ? Kind::real : Kind::index);
      for (const auto& [output, tensor] : bert_scores(example, inputs))
        tensors.expect(output, tensor);
      tensors.write(name + "/example.safetensors");
    }
  }
}

}  // namespace sigma1
