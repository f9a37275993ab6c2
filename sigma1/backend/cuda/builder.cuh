// Instructions made of pointwise ops: for chains of them, and where they stand among a row's other
// ops. Private to this folder.
#pragma once

#include <algorithm>

#include "sigma1/backend/cpu/pointwise.h"
#include "sigma1/backend/cuda/chain.cuh"
#include "sigma1/backend/cuda/instructions.cuh"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"

namespace sigma1::cuda {

struct PointwiseOp {
  const OpDef* op;
  Opcode opcode;
};

// scale, identity and dropout, add and weighted_add differ in their parameters alone.
inline constexpr PointwiseOp kOps[] = {
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

inline const PointwiseOp* find(const OpDef& op) {
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

inline Operand loaded(const Buffer& buffer) { return {Operand::kLoaded, input_of(buffer)}; }

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
    p.step = {launch.step_memory, random.step()};
    p.last_dropped = cpu::last_dropped_word(probability);
  }
};

}  // namespace sigma1::cuda
