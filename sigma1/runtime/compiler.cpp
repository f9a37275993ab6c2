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
           uint64_t seed, Fusion fusion)
      : graph_(graph),
        store_(store),
        stored_(stored),
        seed_(seed),
        places_(place_values(graph, stored, fusion, store.device())),
        views_(find_views(graph)) {}

  CompiledProgram run() {
    create_stored();
    arena_ = add_memory(places_.arena.bytes);
    constants_ = add_memory(places_.constants.bytes);
    scales_ = reinterpret_cast<float*>(add_memory(int64_t{4} * places_.scale_count));
    result_.step_memory = reinterpret_cast<uint64_t*>(add_memory(sizeof(uint64_t)));
    for (const NodeGroup& group : places_.groups) {
      result_.instructions.push_back(instruction(group));
    }
    std::vector<std::unique_ptr<Instruction>> constants;
    for (int node : places_.constant_nodes) {
      constants.push_back(instruction({NodeGroup::Kind::single, {node}}));
    }
    for (const auto& [name, value] : graph_.outputs()) result_.outputs[name] = buffer(value);
    std::span<std::byte> workspace(add_memory(result_.memory.workspace),
                                   static_cast<size_t>(result_.memory.workspace));
    for (auto& each : result_.instructions) {
      each->workspace = workspace;
      if (each->chain) each->chain->set_workspace(workspace.data());
    }
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
    for (const std::vector<Place>& of_node : places_.places) {
      for (const Place& place : of_node) {
        bool both_ways = place.kind == Place::Kind::store && place.turned_width > 0;
        if (both_ways) store_.keep_turned(place.stored_name);
      }
    }
    for (const auto& [name, value] : graph_.outputs()) {
      auto found = stored_.find(name);
      if (found == stored_.end()) continue;
      Cast cast = storage(graph_.node(value.node), static_cast<size_t>(value.output));
      store_.create(found->second, value.type(), cast);
      store_.written_by_program(found->second);
    }
  }

  Buffer buffer(Value value) const {
    Buffer result = buffer_of(graph_, value);
    place(value, result);
    return result;
  }

  void place(Value value, Buffer& buffer) const {
    const Place& place = places_.of(value);
    if (&store_.device() != &cpu_device()) buffer.device = &store_.device();
    if (place.kind == Place::Kind::arena) buffer.data = arena_ + place.offset;
    bool turned = place.turned >= 0 && buffer.shape.back() == place.turned_width;
    if (turned) buffer.turned = arena_ + place.turned;
    if (place.kind == Place::Kind::constant) buffer.data = constants_ + place.offset;
    if (place.kind == Place::Kind::store) {
      const Buffer& stored = store_.at(place.stored_name);
      buffer.data = stored.data;
      bool both_ways = stored.turned && buffer.shape.back() == stored.shape.back();
      if (both_ways) buffer.turned = stored.turned;
    }
    buffer.pitch = place.pitch;
    if (place.scale >= 0) buffer.scale = scales_ + place.scale;
  }

  std::unique_ptr<NodeCall> part(int i) const {
    auto result = std::make_unique<NodeCall>(graph_, i);
    const Node& node = *result->node;
    for (size_t k = 0; k < node.inputs.size(); ++k) place(node.inputs[k], result->inputs[k]);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      place({const_cast<Graph*>(&graph_), i, static_cast<int>(o)}, result->outputs[o]);
      result->random[o] = RandomStream(seed_, result->streams[o], 0);
    }
    return result;
  }

  std::unique_ptr<Instruction> instruction(const NodeGroup& group) {
    auto result = std::make_unique<Instruction>();
    result->step_memory = result_.step_memory;
    for (int i : group.nodes) result->parts.push_back(part(i));
    if (group.nodes.size() == 1) {
      result->kernel = &store_.device().find_kernel(*result->node().op);
      int64_t needed = result->kernel->workspace ? result->kernel->workspace(result->launch(0)) : 0;
      result_.memory.workspace = std::max(result_.memory.workspace, needed);
      int64_t state = result->kernel->state ? result->kernel->state(result->launch(0)) : 0;
      if (state > 0) result->state = {add_memory(state), static_cast<size_t>(state)};
      return result;
    }
    std::vector<ChainStep> steps;
    for (const auto& each : result->parts) {
      Launch launch = each->launch();
      launch.step_memory = result_.step_memory;
      steps.push_back(
          {each->node->op, launch, producers_among(graph_, views_, group.nodes, *each->node)});
    }
    result->chain = store_.device().make_chain(group.kind, std::move(steps));
    result_.memory.workspace = std::max(result_.memory.workspace, result->chain->workspace());
    return result;
  }

  const Graph& graph_;
  Store& store_;
  const std::map<std::string, std::string>& stored_;
  uint64_t seed_;
  Placement places_;
  std::vector<bool> views_;
  CompiledProgram result_;
  std::byte *arena_ = nullptr, *constants_ = nullptr;
  float* scales_ = nullptr;
};

}  // namespace

Launch Instruction::launch(uint64_t step) const {
  Launch launch = parts.front()->launch();
  launch.workspace = workspace;
  launch.state = state;
  launch.step = step;
  launch.step_memory = step_memory;
  return launch;
}

void Instruction::run(uint64_t step, uint64_t seed) {
  for (auto& part : parts) {
    if (!part->is_stochastic()) continue;
    for (size_t o = 0; o < part->random.size(); ++o) {
      part->random[o] = RandomStream(seed, part->streams[o], step);
    }
  }
  try {
    chain ? chain->run(step) : kernel->run(launch(step));
    if (!(chain ? chain->turns() : kernel->turns)) turn_outputs();
  } catch (const Error& error) {
    throw Error("{} at {}: {}", node().op->name, node().name, error.what());
  }
}

void Instruction::turn_outputs() const {
  for (const auto& part : parts) {
    for (const Buffer& each : part->outputs) {
      if (each.turned) each.device->turn(each);
    }
  }
}

CompiledProgram compile(const Graph& graph, Store& store,
                        const std::map<std::string, std::string>& stored, uint64_t seed,
                        Fusion fusion) {
  return Compiler(graph, store, stored, seed, fusion).run();
}

}  // namespace sigma1
