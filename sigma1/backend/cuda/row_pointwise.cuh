// Pointwise ops of a row chain, on numbers that a thread has at hand. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/row_values.cuh"

namespace sigma1::cuda {

// Ops that few chains have stay out of the way of the others.
__device__ __noinline__ inline Four apply_rare(Opcode opcode, Four x, Four y, float factor,
                                               float multiplier) {
  return apply(opcode, x, y, {.factor = factor, .multiplier = multiplier}, 0);
}

__device__ inline Four apply_to(const RowInstruction& each, const Four& x, const Four& y) {
  Parameters p{each.factor, each.multiplier, each.second};
  switch (each.opcode) {
    case Opcode::relu:
      return detail::value<Relu>(x, p);
    case Opcode::relu_grad:
      return detail::derivative<Relu>(x, y, p);
    case Opcode::add:
      return apply(Opcode::add, x, y, p, 0);
    case Opcode::combine:
      return apply(Opcode::combine, x, y, p, 0);
    default:
      return apply_rare(each.opcode, x, y, p.factor, p.multiplier);
  }
}

// How a step ends: its op's results are rounded, and its instructions run on them. Most steps have
// one instruction at most: that one is at hand, while others are read for every four numbers.
template <Type kType>
class RowEnd {
 public:
  __device__ RowEnd(const RowBlock& block, const RowStep& step)
      : block_(block),
        out_(of_block<kType>(block, step.out)),
        code_(block.instructions + step.first_instruction),
        count_(step.instructions) {
    if (count_ > 0) first_ = instruction(0);
  }

  // Of an op that rounds its results first.
  __device__ void finish(RowPlace place, const Four& values) const {
    Pairs pairs = put<kType>(block_, out_, place, values);
    if (count_ > 0) run(place, unpack<kType>(pairs, type_of<kType>(out_) == Type::bf16));
  }

  // The instructions, on what the op left.
  __device__ void run(RowPlace place, Four values) const {
    RowInstruction each = first_;
    for (int i = 1;; ++i) {
      auto operand = [&](const Slot& slot) {
        return slot.offset >= 0 ? read<kType>(block_, slot, place) : values;
      };
      values = apply_to(each, operand(each.x), operand(each.y));
      Pairs pairs{};
      if (each.ends) pairs = put<kType>(block_, each.out, place, values);
      if (i == count_) return;
      if (each.ends) values = unpack<kType>(pairs, type_of<kType>(each.out) == Type::bf16);
      each = instruction(i);
    }
  }

 private:
  __device__ RowInstruction instruction(int i) const {
    RowInstruction each = code_[i];
    each.out = of_block<kType>(block_, each.out);
    return each;
  }

  const RowBlock& block_;
  RowResult out_;
  const RowInstruction* code_;
  int count_;
  RowInstruction first_;
};

}  // namespace sigma1::cuda
