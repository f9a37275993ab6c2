// How a graph becomes a Program's instructions: a place for every value, buffers for every kernel.
// Only Program looks in here.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sigma1/backend/device.h"
#include "sigma1/backend/node_call.h"
#include "sigma1/runtime/program.h"

namespace sigma1 {

// One call: of a kernel for one node, or of a group's chain.
struct Instruction {
  std::vector<std::unique_ptr<NodeCall>> parts;  // by node
  const Kernel* kernel = nullptr;                // of one
  std::unique_ptr<Chain> chain;                  // of several
  std::span<std::byte> workspace, state;
  const uint64_t* step_memory = nullptr;

  const Node& node() const { return *parts.back()->node; }
  Launch launch(uint64_t step) const;  // of one
  void run(uint64_t step, uint64_t seed);

 private:
  void turn_outputs() const;
};

struct CompiledProgram {
  std::vector<std::unique_ptr<Instruction>> instructions;
  std::map<std::string, Buffer> outputs;
  std::vector<DeviceBytes> owned;
  uint64_t* step_memory = nullptr;
  MemoryUse memory;
};

CompiledProgram compile(const Graph& graph, Store& store,
                        const std::map<std::string, std::string>& stored, uint64_t seed,
                        Fusion fusion);

}  // namespace sigma1
