// What programs are made of, on any device: buffers, and kernels that compute one op from buffers
// to buffers, in fp32 inside whatever format the buffers hold. Kernels know nodes, not models.
#pragma once

#include <cstddef>
#include <span>

#include "sigma1/graph/op.h"
#include "sigma1/numerics/convert.h"

namespace sigma1 {

class Device;

// Where a tensor lies and how its numbers are stored. Indices are int32_t and have no codec.
struct Buffer {
  std::byte* data = nullptr;
  const Codec* codec = nullptr;  // null: fp32
  Shape shape;
  Kind kind = Kind::real;
  // Of a tensor scaled at run time: a number is its code's times this. Null elsewhere.
  float* scale = nullptr;
  const Device* device = nullptr;  // null: memory of this process
  // Of a tensor that a device keeps in both orientations: the same codes as [width, rows].
  std::byte* turned = nullptr;
  // Of a part of another tensor's rows: numbers from one row to the next. 0: no gaps.
  int64_t pitch = 0;

  int64_t count() const { return element_count(shape); }
  bool is_fp32() const { return codec == nullptr && kind == Kind::real; }
  float* floats() const { return reinterpret_cast<float*>(data); }
  int32_t* indices() const { return reinterpret_cast<int32_t*>(data); }
};

// One call of a kernel. Output o is multiplied by factors[o] before it is stored: α, and whatever
// was folded into it.
struct Launch {
  std::span<const Buffer> inputs;
  std::span<const Buffer> outputs;
  const Attributes& attributes;
  std::span<const float> factors;
  std::span<const RandomStream> random;  // per output, for stochastic rounding
  std::span<std::byte> workspace;        // as much as the kernel asked for, aligned to 64 bytes
  uint64_t step = 0;
  // The step again, in the device's memory, so that recorded work finds the one it is run for.
  const uint64_t* step_memory = nullptr;
  // As much as the kernel asked for, aligned likewise: zeros before a node's first call, then what
  // its last call left, whatever ran between.
  std::span<std::byte> state{};

  const Buffer& in(size_t i) const { return inputs[i]; }
  const Buffer& out(size_t i = 0) const { return outputs[i]; }
  float factor(size_t output = 0) const { return factors[output]; }
  template <class T>
  const T& attr(std::string_view name) const {
    return attributes.get<T>(name);
  }
};

struct Kernel {
  const OpDef* op = nullptr;
  void (*run)(const Launch&) = nullptr;
  // Bytes of workspace for buffers like these (data, factors and workspace are not set yet).
  int64_t (*workspace)(const Launch&) = nullptr;
  // Whether an output may lie where an input of the same format and size lay that nobody else
  // reads.
  bool (*in_place)(size_t input, size_t output) = nullptr;
  // Whether it writes outputs in both orientations where that is wanted; else the device turns
  // them.
  bool turns = false;
  // Bytes of state, asked for as workspace is.
  int64_t (*state)(const Launch&) = nullptr;
};

// The codec of a cast, made once and kept; null for fp32.
const Codec* shared_codec(const Cast& cast);

}  // namespace sigma1
