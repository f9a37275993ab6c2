#include "sigma1/runtime/compiler.h"

#include <algorithm>

#include "sigma1/base/error.h"
#include "sigma1/graph/sources.h"
#include "sigma1/runtime/placement.h"

namespace sigma1 {
namespace {

class Compiler {
 public:
  Compiler(const Graph& graph, Store& store, const std::map<std::string, std::string>& stored,
           Fusion fusion)
      : graph_(graph),
        store_(store),
        stored_(stored),
        places_(place_values(graph, stored, fusion, store.device())) {}

  CompiledProgram run() {
    create_stored();
    arena_ = add_memory(places_.arena.bytes);
    constants_ = add_memory(places_.constants.bytes);
    scales_ = reinterpret_cast<float*>(add_memory(int64_t{4} * places_.scale_count));
    for (const std::vector<int>& group : places_.groups) {
      result_.instructions.push_back(instruction(group));
    }
    std::vector<std::unique_ptr<Instruction>> constants;
    for (int node : places_.constant_nodes) constants.push_back(instruction({node}));
    for (const auto& [name, value] : graph_.outputs()) result_.outputs[name] = buffer(value);
    std::span<std::byte> workspace(add_memory(result_.memory.workspace),
                                   static_cast<size_t>(result_.memory.workspace));
    for (auto& each : result_.instructions) each->workspace = workspace;
    for (auto& each : constants) {
      each->workspace = workspace;
      each->run(0, 0);
    }
    result_.memory.arena = places_.arena.bytes;
    result_.memory.lower_bound = places_.arena.lower_bound;
    result_.memory.constants = places_.constants.bytes;
    return std::move(result_);
  }

 private:
  std::byte* add_memory(int64_t bytes) {
    return result_.owned.emplace_back(store_.device(), bytes).data();
  }

  void create_stored() {
    for (const Node& node : graph_.nodes()) {
      bool is_bound = node.op == &input_op || node.op == &parameter_op;
      if (is_bound) store_.create(node.name, node.outputs.front(), storage(node, 0));
    }
    for (const auto& [name, value] : graph_.outputs()) {
      auto found = stored_.find(name);
      if (found == stored_.end()) continue;
      Cast cast = storage(graph_.node(value.node), static_cast<size_t>(value.output));
      store_.create(found->second, value.type(), cast);
    }
  }

  Buffer buffer(Value value) const {
    const Node& node = graph_.node(value.node);
    auto output = static_cast<size_t>(value.output);
    const TensorType& type = node.outputs[output];
    const Place& place = places_.of(value);
    Buffer result{nullptr, shared_codec(storage(node, output)), type.shape, type.kind};
    if (type.kind == Kind::index) result.codec = nullptr;
    if (&store_.device() != &cpu_device()) result.device = &store_.device();
    if (place.kind == Place::Kind::arena) result.data = arena_ + place.offset;
    if (place.kind == Place::Kind::constant) result.data = constants_ + place.offset;
    if (place.kind == Place::Kind::store) result.data = store_.at(place.stored_name).data;
    if (place.scale >= 0) result.scale = scales_ + place.scale;
    return result;
  }

  std::unique_ptr<InstructionPart> part(int i) const {
    auto result = std::make_unique<InstructionPart>();
    const Node& node = graph_.node(i);
    result->node = &node;
    for (Value input : node.inputs) result->inputs.push_back(buffer(input));
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      result->outputs.push_back(buffer({const_cast<Graph*>(&graph_), i, static_cast<int>(o)}));
      result->factors.push_back(static_cast<float>(node.factor(o)));
      result->random.emplace_back();
      result->streams.push_back(storage_stream(node, o));
    }
    return result;
  }

  std::unique_ptr<Instruction> instruction(const std::vector<int>& group) {
    auto result = std::make_unique<Instruction>();
    for (int i : group) result->parts.push_back(part(i));
    const Node& node = result->node();
    if (group.size() == 1) {
      result->kernel = &store_.device().find_kernel(*node.op);
      Launch launch = result->parts.front()->launch({}, 0);
      int64_t needed = result->kernel->workspace ? result->kernel->workspace(launch) : 0;
      result_.memory.workspace = std::max(result_.memory.workspace, needed);
      return result;
    }
    std::vector<ChainStep> steps;
    for (const auto& each : result->parts) {
      ChainStep step{each->node->op, each->launch({}, 0), {}};
      for (Value input : each->node->inputs) {
        auto found = std::ranges::find(group, input.node);
        step.producer.push_back(found == group.end() ? -1
                                                     : static_cast<int>(found - group.begin()));
      }
      steps.push_back(std::move(step));
    }
    result->chain = store_.device().make_chain(std::move(steps));
    return result;
  }

  const Graph& graph_;
  Store& store_;
  const std::map<std::string, std::string>& stored_;
  Placement places_;
  CompiledProgram result_;
  std::byte *arena_ = nullptr, *constants_ = nullptr;
  float* scales_ = nullptr;
};

}  // namespace

Launch InstructionPart::launch(std::span<std::byte> workspace, uint64_t step) const {
  return {inputs, outputs, node->attributes, factors, random, workspace, step};
}

bool InstructionPart::is_stochastic() const {
  return std::ranges::any_of(
      node->storage, [](const Cast& cast) { return cast.rounding == Rounding::stochastic; });
}

void Instruction::run(uint64_t step, uint64_t seed) {
  for (auto& part : parts) {
    if (!part->is_stochastic()) continue;
    for (size_t o = 0; o < part->random.size(); ++o) {
      part->random[o] = RandomStream(seed, part->streams[o], step);
    }
  }
  try {
    chain ? chain->run(step) : kernel->run(parts.front()->launch(workspace, step));
  } catch (const Error& error) {
    throw Error("{} at {}: {}", node().op->name, node().name, error.what());
  }
}

CompiledProgram compile(const Graph& graph, Store& store,
                        const std::map<std::string, std::string>& stored, Fusion fusion) {
  return Compiler(graph, store, stored, fusion).run();
}

}  // namespace sigma1
