// A graph run as a Program on given values, beside what the reference makes of the same.
#pragma once

#include <cmath>
#include <memory>

#include "sigma1/backend/reference.h"
#include "sigma1/graph/rewrite.h"
#include "sigma1/passes/lowering.h"
#include "sigma1/runtime/placement.h"
#include "sigma1/runtime/program.h"
#include "tests/models/training_graph.h"

namespace sigma1 {

using Names = std::map<std::string, std::string>;
using Bytes = std::vector<std::byte>;

// Writes to the store what the graph's sources are given.
inline void write_sources(Store& store, const Bindings& bindings) {
  for (const auto& [name, tensor] : bindings) {
    if (!store.contains(name)) continue;
    if (store.at(name).kind == Kind::index) {
      store.write_indices(name, std::vector<int32_t>(tensor.data.begin(), tensor.data.end()));
    } else {
      store.write(name, std::vector<float>(tensor.data.begin(), tensor.data.end()));
    }
  }
}

inline Tensor tensor_of(const Buffer& buffer) {
  std::vector<float> values = read_floats(buffer);
  return {buffer.shape, std::vector<double>(values.begin(), values.end())};
}

// The sources as the store's formats hold them.
inline Bindings stored_bindings(const Store& store, const Bindings& bindings) {
  Bindings rounded;
  for (const auto& [name, tensor] : bindings) rounded[name] = tensor_of(store.at(name));
  return rounded;
}

inline Bytes bytes_of(const Buffer& buffer) {
  int64_t size = buffer.count() * (buffer.codec ? buffer.codec->bytes() : 4);
  return {buffer.data, buffer.data + size};
}

// A program with a store of its own.
struct ProgramRun {
  std::shared_ptr<Graph> graph;
  Store store;
  Program program;
  Bindings bindings;  // as stored

  ProgramRun(std::shared_ptr<Graph> of, const Bindings& given, const Names& stored = {},
             const Device& device = cpu_device())
      : graph(std::move(of)), store(device), program(graph, store, stored) {
    write_sources(store, given);
    bindings = stored_bindings(store, given);
  }
  std::map<std::string, Bytes> bits() const {
    std::map<std::string, Bytes> all;
    for (const auto& [name, value] : graph->outputs()) all[name] = bytes_of(program.output(name));
    return all;
  }
};

// A training step as it is lowered for running.
inline std::shared_ptr<Graph> lowered(const TrainingCase& of, const Precision& precision) {
  auto graph = std::make_shared<Graph>();
  build_training_graph(*graph, of, Scheme::paper);
  fold(*graph);
  lower_precision(*graph, precision);
  fuse_loss(*graph);
  remove_dead_nodes(*graph);
  return graph;
}

inline Precision delayed_fp8() {
  Precision precision = Precision::named("fp8");
  precision.scaling = CastScaling::delayed;
  return precision;
}

// What lies inside a fused chain is never stored, and so not rounded: the reference is told so.
inline void unround_fused(Graph& graph) {
  Placement placement = place_values(graph, {});
  for (int i = 0; i < graph.size(); ++i) {
    Node& node = graph.node(i);
    for (size_t o = 0; o < node.storage.size(); ++o) {
      bool fused = placement.places[static_cast<size_t>(i)][o].kind == Place::Kind::none;
      if (fused) node.storage[o] = storage_cast("fp32");
    }
  }
}

// ‖got − want‖ / ‖want‖.
inline double relative_error(const Tensor& got, const Tensor& want) {
  double error = 0, size = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  return std::sqrt(error / size);
}

}  // namespace sigma1
