#include "sigma1/backend/reference.h"

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/base/rng.h"
#include "sigma1/graph/sources.h"

namespace sigma1 {
namespace {

const Tensor& bound(const Node& node, const Bindings& bindings) {
  auto found = bindings.find(node.name);
  if (found == bindings.end()) throw Error("{} {} has no value", node.op->name, node.name);
  if (found->second.shape != node.outputs.front().shape) {
    throw Error("{} {}: expected shape {}, got {}", node.op->name, node.name,
                to_string(node.outputs.front().shape), to_string(found->second.shape));
  }
  return found->second;
}

// What storing does to the numbers. fp32 is left alone: the oracle is there to be more exact.
void round_to_storage(Tensor& tensor, const Node& node, size_t output, uint64_t step) {
  const Cast& cast = node.storage[output];
  if (cast.format.bytes() == 4 || (node.op->rounds_itself && output == 0)) return;
  RandomStream random(0, storage_stream(node, output), step);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor[i] = quantize(tensor[i], cast, random.bits(static_cast<uint64_t>(i)));
  }
}

std::vector<Tensor> evaluate(const Node& node, const std::vector<std::vector<Tensor>>& values,
                             uint64_t step) {
  std::vector<const Tensor*> inputs;
  for (Value input : node.inputs) {
    inputs.push_back(&values[static_cast<size_t>(input.node)][static_cast<size_t>(input.output)]);
  }
  std::vector<Tensor> outputs;
  for (const TensorType& type : node.outputs) outputs.emplace_back(type.shape);
  try {
    node.op->evaluate({inputs, outputs, node.attributes, step});
  } catch (const Error& error) {
    throw Error("{} at {}: {}", node.op->name, node.name, error.what());
  }
  for (size_t o = 0; o < outputs.size(); ++o) {
    for (double& x : outputs[o].data) x *= node.factor(o);
    if (!node.storage.empty()) round_to_storage(outputs[o], node, o, step);
  }
  return outputs;
}

}  // namespace

ReferenceResult run_reference(const Graph& graph, const Bindings& bindings, uint64_t step,
                              const AfterNode& after_node) {
  std::vector<std::vector<Tensor>> values;
  for (const Node& node : graph.nodes()) {
    bool given = node.op == &input_op || node.op == &parameter_op;
    if (given) {
      values.push_back({bound(node, bindings)});
    } else {
      values.push_back(evaluate(node, values, step));
      if (after_node) after_node(node, values.back());
    }
  }
  return ReferenceResult(std::move(values));
}

Tensor normal_tensor(const Shape& shape, const std::string& name, uint64_t seed) {
  Tensor tensor(shape);
  RandomStream random(seed, name);
  for (int64_t i = 0; i < tensor.count(); ++i) tensor[i] = random.normal(static_cast<uint64_t>(i));
  return tensor;
}

Tensor index_tensor(const Shape& shape, int64_t limit, const std::string& name, uint64_t seed) {
  Tensor tensor(shape);
  RandomStream random(seed, name);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor[i] = std::floor(random.uniform(static_cast<uint64_t>(i)) * static_cast<double>(limit));
  }
  return tensor;
}

Tensor initial_value(const Node& parameter, uint64_t seed) {
  const auto& distribution = parameter.attributes.get<std::string>("distribution");
  double std_dev = parameter.attributes.get<double>("std_dev");
  double mean = parameter.attributes.get<double>("mean");
  Tensor tensor(parameter.outputs.front().shape);
  RandomStream random(seed, parameter.name);
  bool normal = distribution == "normal", uniform = distribution == "uniform";
  constexpr size_t kGrain = 1 << 14;
  parallel_for(tensor.data.size(), kGrain, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      double unit = 0;
      if (normal) unit = random.normal(i);
      if (uniform) unit = std::sqrt(3.0) * (2 * random.uniform(i) - 1);
      tensor.data[i] = mean + std_dev * unit;
    }
  });
  return tensor;
}

Bindings initial_parameters(const Graph& graph, uint64_t seed) {
  Bindings bindings;
  for (Value parameter : graph.parameters()) {
    const Node& node = graph.node(parameter.node);
    bindings[node.name] = initial_value(node, seed);
  }
  return bindings;
}

}  // namespace sigma1
