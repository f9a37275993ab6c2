// Ops that treat each element alone, as functions of a tile, so that a chain of them can run while
// a tile lies in the first-level cache.
#pragma once

#include "sigma1/backend/cpu/kernel.h"

namespace sigma1::cpu {

// Elements [first, first + count) of an op's output, multiplied by the launch's factor but not yet
// stored. All inputs are fp32 and whole: a shorter operand has been repeated. `first` is a multiple
// of four and count at most kTile. The output may be one of the inputs.
using TileFunction = void (*)(const Launch& launch, int64_t first, int64_t count,
                              const float* const* inputs, float* output);

struct PointwiseOp {
  const OpDef* op = nullptr;
  TileFunction tile = nullptr;
};

// Of dropout: whether no random word is dropped, and the largest one that is: whose
// RandomStream::uniform(), (word + ½)·2^-32, is below p.
bool drops_none(double p);
uint32_t last_dropped_word(double p);

// Null when the op is not of this kind.
const PointwiseOp* find_pointwise(const OpDef& op);

// Elements [first, first + count) of what `buffer` becomes when it is repeated until it has
// whole_count elements. In its own memory when it is fp32 and the piece needs no repeating, else in
// `room`.
const float* load_tile(const Buffer& buffer, int64_t first, int64_t count, int64_t whole_count,
                       float* room);

}  // namespace sigma1::cpu
