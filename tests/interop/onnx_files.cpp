#include "tests/interop/onnx_files.h"

#include "sigma1/backend/reference.h"
#include "sigma1/base/error.h"
#include "sigma1/exchange/onnx_export.h"
#include "sigma1/graph/sources.h"
#include "sigma1/models/registry.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/positions.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/passes/unit_scaling.h"
#include "tests/interop/example_tensors.h"

namespace sigma1 {
namespace {

// Below every table that these models look into.
int64_t index_limit(const std::string& input) {
  return input == "segments" || input == "next_sentence" ? 2 : 6;
}

// Inputs without gradient are masks: some keys and rows left out.
Tensor input_numbers(const Node& node) {
  const TensorType& type = node.outputs.front();
  if (type.kind == Kind::index)
    return index_tensor(type.shape, index_limit(node.name), node.name, 1);
  if (node.attributes.get<bool>("with_gradient")) return normal_tensor(type.shape, node.name, 1);
  Tensor mask(type.shape);
  for (int64_t i = 0; i < mask.count(); ++i) mask[i] = i % 5 == 3 ? 0 : 1;
  return mask;
}

class Example {
 public:
  explicit Example(const Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes()) {
      if (node.op == &input_op) bindings_[node.name] = input_numbers(node);
      if (node.op == &parameter_op) bind_parameter(node);
    }
  }

  void write(const std::string& stem) {
    onnx_model(graph_, parameters_).write(stem + ".onnx");
    ReferenceResult result = run_reference(graph_, bindings_);
    ExampleTensors tensors;
    for (const Node& node : graph_.nodes()) {
      if (node.op == &input_op)
        tensors.add(node.name, bindings_[node.name], node.outputs.front().kind);
    }
    for (const auto& [name, value] : graph_.outputs()) tensors.expect(name, result[value]);
    tensors.write(stem + ".safetensors");
  }

 private:
  // Nothing stays zero or one: a bias or a gain that went missing must be seen.
  void bind_parameter(const Node& node) {
    Tensor start = initial_value(node, 2);
    Tensor noise = normal_tensor(start.shape, node.name, 3);
    std::vector<float> numbers;
    for (int64_t i = 0; i < start.count(); ++i) {
      start[i] = static_cast<float>(start[i] + 0.2 * noise[i]);
      numbers.push_back(static_cast<float>(start[i]));
    }
    parameters_[node.name] = std::move(numbers);
    bindings_[node.name] = std::move(start);
  }

  const Graph& graph_;
  Bindings bindings_;
  ParameterValues parameters_;
};

// What no model of ours reads yet.
void build_rest(Graph& graph) {
  Value x = graph.input("x", {{2, 6, 8}});
  Value rows = graph.input("rows", {{2, 3}, Kind::index});
  Value mask = graph.input("mask", {{2, 6}}, false);
  Value nothing = graph.input("nothing", {{2, 6}}, false);
  Value turned = transpose(x, {0, 2, -2});
  Value square = matmul(x, turned);
  Value weight = graph.parameter("weight", {5, 6}, {"normal", 1});
  Value crossed = matmul(turned, weight, {false, true});
  Value picked = gather_rows(x, rows);
  Value seen = attention(x, x, x, {.heads = 2, .multiplier = 1.5, .mask = mask});
  Value blind = scale(nothing, 0);
  Value zeros = attention(x, x, x, {.heads = 2, .causal = true, .mask = blind});
  graph.mark_output("softmax", softmax(square, 0.7));
  graph.mark_output("crossed", crossed);
  graph.mark_output("picked", tanh(picked));
  graph.mark_output("seen", seen);
  graph.mark_output("zeros", zeros);
  graph.mark_output("sum", sum(x, {-1}));
  graph.mark_output("mean", mean(x, {0, 2}));
  graph.mark_output("part", sigmoid(slice(x, -1, 2, 7)));
  graph.mark_output("back", rotary(x, {.heads = 2, .inverse = true}));
  graph.mark_output("plain_norm", rms_norm(layer_norm(x)));
  Value bent = gelu_tanh(softplus(x));
  graph.mark_output("bent", log(add({exp(bent), bent, bent})));
}

void write_both(const std::string& folder, const std::string& name,
                const std::function<void(Graph&)>& build) {
  for (bool scaled : {false, true}) {
    Graph graph;
    build(graph);
    if (scaled) unit_scale(graph);
    Example(graph).write(fmt::format("{}/{}_{}", folder, name, scaled ? "unit" : "plain"));
  }
}

}  // namespace

void write_onnx_examples(const std::string& folder) {
  ModelConfig small{
      .batch = 2, .time = 6, .width = 32, .hidden = 48, .depth = 2, .heads = 4, .vocabulary = 11};
  auto write = [&](const std::string& name, const std::string& model, auto change) {
    ModelConfig config = small;
    change(config);
    write_both(folder, name, [&](Graph& graph) { build_model(graph, model, config); });
  };
  for (const char* model : {"mlp", "ffn", "transformer"}) write(model, model, [](ModelConfig&) {});
  write("char_attention", "char_lm", [](ModelConfig& c) { c.attention_multiplier = 1.5; });
  write("char_conv", "char_lm", [](ModelConfig& c) {
    c.context = "conv";
    c.norm = "post";
    c.time = 9;
  });
  write("gpt2", "gpt", [](ModelConfig& c) { c.activation_multiplier = 0.8; });
  write("llama", "gpt", [](ModelConfig& c) {
    c.block = "llama";
    c.kv_heads = 2;
  });
  for (const char* model : {"bert", "bert_squad"}) {
    write(model, model, [](ModelConfig& c) {
      c.positions = 8;
      c.predictions = 3;
    });
  }
  Graph rest;
  build_rest(rest);
  Example(rest).write(folder + "/rest");
}

}  // namespace sigma1
