#include "sigma1/backend/cuda/chain.cuh"

#include <algorithm>
#include <array>

#include "sigma1/backend/cpu/pointwise.h"
#include "sigma1/backend/cuda/instructions.cuh"
#include "sigma1/base/error.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"

namespace sigma1::cuda {
namespace {

struct PointwiseOp {
  const OpDef* op;
  Opcode opcode;
};

// scale, identity and dropout, add and weighted_add differ in their parameters alone.
constexpr PointwiseOp kOps[] = {
    {&relu_op, Opcode::relu},
    {&gelu_op, Opcode::gelu},
    {&gelu_tanh_op, Opcode::gelu_tanh},
    {&tanh_op, Opcode::tanh},
    {&sigmoid_op, Opcode::sigmoid},
    {&silu_op, Opcode::silu},
    {&softplus_op, Opcode::softplus},
    {&exp_op, Opcode::exp},
    {&log_op, Opcode::log},
    {&relu_grad_op, Opcode::relu_grad},
    {&gelu_grad_op, Opcode::gelu_grad},
    {&gelu_tanh_grad_op, Opcode::gelu_tanh_grad},
    {&tanh_grad_op, Opcode::tanh_grad},
    {&sigmoid_grad_op, Opcode::sigmoid_grad},
    {&silu_grad_op, Opcode::silu_grad},
    {&softplus_grad_op, Opcode::softplus_grad},
    {&exp_grad_op, Opcode::exp_grad},
    {&log_grad_op, Opcode::log_grad},
    {&mul_op, Opcode::multiply},
    {&scale_op, Opcode::scale},
    {&identity_op, Opcode::scale},
    {&dropout_op, Opcode::dropout},
    {&add_op, Opcode::add},
    {&weighted_add_op, Opcode::combine},
};

const PointwiseOp* find(const OpDef& op) {
  const PointwiseOp* found =
      std::find_if(std::begin(kOps), std::end(kOps), [&](auto& each) { return each.op == &op; });
  return found == std::end(kOps) ? nullptr : found;
}

// A kernel's parameter. Instruction i leaves its result in value i; the last one's is stored.
template <size_t most>
struct Code {
  Instruction instructions[most];
  int count = 0;
  Output out;
};
using LongCode = Code<kMostInstructions>;

template <size_t most>
__global__ void interpret(const __grid_constant__ Code<most> code) {
  int64_t size = code.out.view.count;
  Four values[most] = {};
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
    auto operand = [&](const Operand& from) {
      if (from.instruction == Operand::kNone) return Four{};
      if (from.instruction == Operand::kLoaded) return read(from.input, first, size);
      return values[from.instruction];
    };
#pragma unroll 1
    for (int i = 0; i < code.count; ++i) {
      const Instruction& each = code.instructions[i];
      Four x = operand(each.x), y = operand(each.y);
      values[i] = apply(each.opcode, x, y, each.parameters, first);
    }
    write(code.out, first, values[code.count - 1]);
  }
}

// Most launches are of one op, whose value needs no array.
__global__ void interpret_one(const __grid_constant__ Code<1> code) {
  int64_t size = code.out.view.count;
  const Instruction& op = code.instructions[0];
  for (int64_t first = first_of_thread(); first < size; first += stride_of_grid()) {
    Four x = read(op.x.input, first, size), y{};
    if (op.y.instruction == Operand::kLoaded) y = read(op.y.input, first, size);
    write(code.out, first, apply(op.opcode, x, y, op.parameters, first));
  }
}

void launch_code(const LongCode& code) {
  int blocks = blocks_for_fours(code.out.view.count);
  if (code.count == 1) {
    interpret_one<<<blocks, kThreads, 0, stream()>>>({{code.instructions[0]}, 1, code.out});
  } else {
    interpret<<<blocks, kThreads, 0, stream()>>>(code);
  }
  check(cudaGetLastError(), "pointwise");
}

Operand loaded(const Buffer& buffer) { return {Operand::kLoaded, input_of(buffer)}; }

// Makes instructions of ops, one after another.
class Builder {
 public:
  LongCode code;

  // Inputs that earlier steps computed are found by `results`, the instruction of each step.
  void append(const ChainStep& chain_step, std::span<const int> results, uint64_t step) {
    const Launch& launch = chain_step.launch;
    auto operand = [&](size_t i) {
      int producer = chain_step.producer.empty() ? -1 : chain_step.producer[i];
      return producer < 0 ? loaded(launch.in(i)) : Operand{results[static_cast<size_t>(producer)]};
    };
    Opcode opcode = find(*chain_step.op)->opcode;
    if (opcode == Opcode::add || opcode == Opcode::combine) {
      return append_sum(launch, opcode, 0, launch.inputs.size(), operand);
    }
    bool is_binary = launch.inputs.size() == 2;
    Instruction next{opcode, {}, operand(0), is_binary ? operand(1) : Operand{}};
    set_parameters(next, launch, step);
    append(next);
  }

  // Terms [first, last) of a sum, added to `sum` where that is something.
  template <class OperandOf>
  void append_sum(const Launch& launch, Opcode opcode, size_t first, size_t last, OperandOf operand,
                  Operand sum = {}) {
    float factor = launch.factor();
    bool has_sum = sum.instruction != Operand::kNone;
    if (opcode == Opcode::add && launch.inputs.size() == 2) {
      return append({opcode, {.factor = factor}, operand(0), operand(1)});
    }
    auto weight = [&](size_t i) {
      if (opcode == Opcode::add) return factor;
      const auto& weights = launch.attr<std::vector<double>>("weights");
      return static_cast<float>(weights[i] * static_cast<double>(factor));
    };
    if (last - first == 1 && !has_sum) {
      return append({Opcode::scale, {.factor = weight(first)}, operand(first)});
    }
    if (!has_sum) {
      append({Opcode::combine,
              {.factor = weight(first), .second = weight(first + 1)},
              operand(first),
              operand(first + 1)});
      sum = {code.count - 1};
      first += 2;
    }
    for (size_t i = first; i < last; ++i) {
      append({Opcode::combine, {.factor = weight(i)}, operand(i), sum});
      sum = {code.count - 1};
    }
  }

 private:
  void append(const Instruction& next) { code.instructions[code.count++] = next; }

  static void set_parameters(Instruction& next, const Launch& launch, uint64_t step) {
    Parameters& p = next.parameters;
    p.factor = launch.factor();
    if (next.opcode == Opcode::multiply) return;
    if (next.opcode == Opcode::scale) {
      double factor = launch.attributes.get_or("factor", 1.0);
      p.factor = static_cast<float>(factor * static_cast<double>(launch.factor()));
    } else if (next.opcode == Opcode::dropout) {
      set_dropout(next, launch, step);
    } else {
      p.multiplier = static_cast<float>(launch.attributes.get_or("multiplier", 1.0));
      if (next.opcode >= Opcode::relu_grad) p.factor *= p.multiplier;
    }
  }

  static void set_dropout(Instruction& next, const Launch& launch, uint64_t step) {
    Parameters& p = next.parameters;
    double probability = launch.attr<double>("p");
    p.factor = static_cast<float>(static_cast<double>(launch.factor()) / (1 - probability));
    if (cpu::drops_none(probability)) {
      next.opcode = Opcode::scale;
      return;
    }
    RandomStream random(static_cast<uint64_t>(launch.attr<int64_t>("seed")),
                        launch.attr<std::string>("stream"), step);
    p.key = random.key();
    p.step = random.step();
    p.last_dropped = cpu::last_dropped_word(probability);
  }
};

// A sum of more terms than one kernel takes, by way of fp32 numbers in the workspace.
void run_long_sum(Opcode opcode, const Launch& launch) {
  int64_t size = launch.out().count();
  size_t terms = launch.inputs.size();
  auto* sums = reinterpret_cast<float*>(launch.workspace.data());
  auto operand = [&](size_t i) { return loaded(launch.in(i)); };
  Operand before;
  for (size_t first = 0; first < terms; first += kMostInstructions) {
    size_t last = std::min(first + kMostInstructions, terms);
    Builder builder;
    builder.append_sum(launch, opcode, first, last, operand, before);
    builder.code.out = last == terms ? output_of(launch) : output_of(sums, size);
    launch_code(builder.code);
    before = {Operand::kLoaded, input_of(sums, size)};
  }
}

}  // namespace

bool is_pointwise(const OpDef& op) { return find(op) != nullptr; }

bool fits(std::span<const ChainStep> steps) {
  size_t instructions = 0;
  for (const ChainStep& each : steps) instructions += instructions_for(each.launch.inputs.size());
  return instructions <= kMostInstructions;
}

PointwiseChain::PointwiseChain(std::vector<ChainStep> steps) : steps_(std::move(steps)) {
  if (steps_.empty() || !fits(steps_)) throw Bug("a chain of {} steps does not fit", steps_.size());
}

void PointwiseChain::run(uint64_t step) {
  std::array<int, kMostInstructions> results{};
  Builder builder;
  for (size_t s = 0; s < steps_.size(); ++s) {
    builder.append(steps_[s], results, step);
    results[s] = builder.code.count - 1;
  }
  builder.code.out = output_of(steps_.back().launch);
  launch_code(builder.code);
}

void run_pointwise(const OpDef& op, const Launch& launch) {
  if (instructions_for(launch.inputs.size()) > kMostInstructions) {
    return run_long_sum(find(op)->opcode, launch);
  }
  Builder builder;
  builder.append({&op, launch, {}}, {}, launch.step);
  builder.code.out = output_of(launch);
  launch_code(builder.code);
}

int64_t pointwise_workspace(const Launch& launch) {
  bool fits_one = instructions_for(launch.inputs.size()) <= kMostInstructions;
  return fits_one ? 0 : launch.out().count() * static_cast<int64_t>(sizeof(float));
}

}  // namespace sigma1::cuda
