// How a graph becomes a Program's instructions: a place for every value, buffers for every kernel.
// Only Program looks in here.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sigma1/backend/device.h"
#include "sigma1/runtime/program.h"

namespace sigma1 {

// One node's share of an instruction: what its Launch points to.
struct InstructionPart {
  const Node* node = nullptr;
  std::vector<Buffer> inputs, outputs;
  std::vector<float> factors;
  std::vector<RandomStream> random;
  std::vector<std::string> streams;  // their names

  Launch launch(std::span<std::byte> workspace, uint64_t step) const;
  bool is_stochastic() const;
};

// One kernel call, or one chain of pointwise ops.
struct Instruction {
  std::vector<std::unique_ptr<InstructionPart>> parts;  // one, or the chain's
  const Kernel* kernel = nullptr;                       // of one
  std::unique_ptr<Chain> chain;                         // of several
  std::span<std::byte> workspace;

  const Node& node() const { return *parts.back()->node; }
  std::span<const Buffer> outputs() const { return parts.back()->outputs; }
  void run(uint64_t step, uint64_t seed);
};

struct CompiledProgram {
  std::vector<std::unique_ptr<Instruction>> instructions;
  std::map<std::string, Buffer> outputs;
  std::vector<DeviceBytes> owned;
  MemoryUse memory;
};

CompiledProgram compile(const Graph& graph, Store& store,
                        const std::map<std::string, std::string>& stored, Fusion fusion);

}  // namespace sigma1
