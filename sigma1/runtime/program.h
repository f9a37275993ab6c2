// A lowered graph made ready to run on a device: every value has its place, every node its kernel,
// and a run allocates nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "sigma1/graph/graph.h"
#include "sigma1/runtime/store.h"

namespace sigma1 {

struct MemoryUse {
  int64_t arena = 0;        // planned bytes of all values of a step
  int64_t lower_bound = 0;  // the most that is alive at once
  int64_t workspace = 0;    // the largest kernel's own
  int64_t constants = 0;
};

struct InstructionTime {
  std::string name;  // of the node, the last one's of a fused chain
  std::string_view op;
  double milliseconds = 0;
};

// Whether chains of pointwise ops run as one loop, or every tensor is stored, to be looked at.
enum class Fusion { chains, none };

// Sees a node's output right after it was computed; what is fused away is not seen.
using Observer = std::function<void(const Node& node, size_t output, const Buffer& buffer)>;

struct Instruction;

class Program {
 public:
  // Sources are bound to the store by name; an input or parameter the store lacks is created there,
  // zero. An output of the graph listed in `stored` lives in the store under the given name: after
  // a run it is there.
  Program(std::shared_ptr<const Graph> graph, Store& store,
          const std::map<std::string, std::string>& stored = {}, uint64_t seed = 0,
          Fusion fusion = Fusion::chains);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void run(uint64_t step, const Observer& observer = {});
  // The two parts of a run: telling the step, and the kernels, which a device can record.
  void set_step(uint64_t step);
  void launch(const Observer& observer = {});
  // One of the graph's calls alone, of those whose order is the caller's business.
  void launch_call(size_t call);
  size_t calls() const { return instructions_.size(); }
  // Where the device finds the step.
  const uint64_t* step_memory() const { return step_memory_; }
  // The same, timed instruction by instruction.
  std::vector<InstructionTime> profile(uint64_t step);

  // A marked output, valid until the next run.
  const Buffer& output(const std::string& name) const;
  float scalar(const std::string& name) const;
  // The first output that is not finite when run again, as "node at output o"; empty when all are.
  std::string first_non_finite(uint64_t step);

  const Graph& graph() const { return *graph_; }
  MemoryUse memory() const { return memory_; }

 private:
  std::shared_ptr<const Graph> graph_;
  std::vector<std::unique_ptr<Instruction>> instructions_;
  std::map<std::string, Buffer> outputs_;
  std::vector<DeviceBytes> owned_;
  const Device& device_;
  uint64_t* step_memory_ = nullptr;
  uint64_t seed_, step_ = 0;
  MemoryUse memory_;
};

}  // namespace sigma1
