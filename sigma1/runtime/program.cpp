#include "sigma1/runtime/program.h"

#include <chrono>

#include "sigma1/backend/cpu/fused.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/base/error.h"
#include "sigma1/runtime/compiler.h"

namespace sigma1 {

Program::Program(std::shared_ptr<const Graph> graph, Store& store,
                 const std::map<std::string, std::string>& stored, uint64_t seed, Fusion fusion)
    : graph_(std::move(graph)), device_(store.device()), seed_(seed) {
  CompiledProgram compiled = compile(*graph_, store, stored, seed, fusion);
  instructions_ = std::move(compiled.instructions);
  outputs_ = std::move(compiled.outputs);
  owned_ = std::move(compiled.owned);
  step_memory_ = compiled.step_memory;
  memory_ = compiled.memory;
}

Program::~Program() = default;

void Program::run(uint64_t step, const Observer& observer) {
  set_step(step);
  launch(observer);
}

void Program::set_step(uint64_t step) {
  step_ = step;
  device_.write(reinterpret_cast<std::byte*>(step_memory_), &step, sizeof(step));
}

void Program::launch(const Observer& observer) {
  for (const auto& instruction : instructions_) {
    instruction->run(step_, seed_);
    if (!observer) continue;
    for (const auto& part : instruction->parts) {
      for (size_t o = 0; o < part->outputs.size(); ++o) {
        const Buffer& output = part->outputs[o];
        if (output.data && output.pitch == 0) observer(*part->node, o, output);
      }
    }
  }
}

void Program::launch_call(size_t call) { instructions_.at(call)->run(step_, seed_); }

std::vector<InstructionTime> Program::profile(uint64_t step) {
  using Clock = std::chrono::steady_clock;
  std::vector<InstructionTime> times;
  set_step(step);
  for (const auto& instruction : instructions_) {
    Clock::time_point start = Clock::now();
    instruction->run(step, seed_);
    std::chrono::duration<double, std::milli> taken = Clock::now() - start;
    times.push_back({instruction->node().name, instruction->node().op->name, taken.count()});
  }
  return times;
}

const Buffer& Program::output(const std::string& name) const {
  auto found = outputs_.find(name);
  if (found == outputs_.end()) throw Bug("the program has no output '{}'", name);
  return found->second;
}

float Program::scalar(const std::string& name) const { return read_floats(output(name)).front(); }

std::string Program::first_non_finite(uint64_t step) {
  std::string found;
  run(step, [&](const Node& node, size_t output, const Buffer& buffer) {
    if (!found.empty() || buffer.kind == Kind::index) return;
    std::vector<float> values = read_floats(buffer);
    if (cpu::vectors().all_finite(values.data(), buffer.count())) return;
    found = node.outputs.size() == 1 ? node.name : fmt::format("{} (output {})", node.name, output);
  });
  return found;
}

}  // namespace sigma1
