// The instructions that a chain of pointwise ops is interpreted from, and the one device function
// that carries them out.
#pragma once

#include <iterator>

#include "sigma1/backend/cuda/activations.cuh"
#include "sigma1/backend/cuda/four.cuh"

namespace sigma1::cuda {

enum class Opcode : int {
  relu,
  gelu,
  gelu_tanh,
  tanh,
  sigmoid,
  silu,
  softplus,
  exp,
  log,
  relu_grad,
  gelu_grad,
  gelu_tanh_grad,
  tanh_grad,
  sigmoid_grad,
  silu_grad,
  softplus_grad,
  exp_grad,
  log_grad,
  multiply,  // factor·(x·y)
  scale,     // factor·x
  dropout,   // factor·x where the random word is above `last_dropped`, else 0
  add,       // factor·(x + y)
  combine,   // factor·x + second·y
};

// What activations.cuh calls an opcode's function, or that of which it is the gradient.
inline constexpr const char* kActivations[] = {"Relu", "Gelu",     "GeluTanh", "Tanh", "Sigmoid",
                                               "Silu", "Softplus", "Exp",      "Log"};
static_assert(std::size(kActivations) == static_cast<size_t>(Opcode::relu_grad));
constexpr const char* activation_of(Opcode opcode) {
  return kActivations[static_cast<size_t>(opcode) % std::size(kActivations)];
}

struct Parameters {
  float factor = 1;
  float multiplier = 1;  // of an activation's input
  float second = 1;
  uint32_t last_dropped = 0;
  PhiloxKey key{};
  Step step;
};

// Where an instruction finds an input.
struct Operand {
  static constexpr int kNone = -2, kLoaded = -1;
  int instruction = kNone;  // the earlier one that computed it, or one of the above
  Input input{};
};

struct Instruction {
  Opcode opcode{};
  Parameters parameters{};
  Operand x{}, y{};
};

namespace detail {

// Numbers are groups of four neighbours.
template <class Numbers, class F>
__device__ Numbers map(const Numbers& x, const Numbers& y, F f) {
  Numbers result;
#pragma unroll
  for (size_t k = 0; k < std::size(x.at); ++k) result.at[k] = f(x.at[k], y.at[k]);
  return result;
}

template <class Activation, class Numbers>
__device__ Numbers value(const Numbers& x, const Parameters& p) {
  return map(x, x, [&](float a, float) { return p.factor * Activation::value(p.multiplier * a); });
}

template <class Activation, class Numbers>
__device__ Numbers derivative(const Numbers& x, const Numbers& dy, const Parameters& p) {
  return map(x, dy, [&](float a, float b) {
    return p.factor * (Activation::derivative(p.multiplier * a) * b);
  });
}

template <class Numbers>
__device__ Numbers dropout(const Numbers& x, const Parameters& p, int64_t first, int64_t stride) {
  Numbers result;
#pragma unroll
  for (size_t begin = 0; begin < std::size(x.at); begin += 4, first += stride) {
    PhiloxBlock random = random_block(p.key, p.step(), static_cast<uint64_t>(first) / 4);
#pragma unroll
    for (size_t k = 0; k < 4; ++k) {
      bool stays = random.word[k] > p.last_dropped;
      result.at[begin + k] = stays ? p.factor * x.at[begin + k] : 0;
    }
  }
  return result;
}

}  // namespace detail

// As many elements of an instruction's result as there are of x, in groups of four neighbours: the
// first from `first` on, the others `stride` apart.
template <class Numbers>
__device__ Numbers apply(Opcode opcode, const Numbers& x, const Numbers& y, const Parameters& p,
                         int64_t first, int64_t stride = 4) {
  switch (opcode) {
    case Opcode::relu:
      return detail::value<Relu>(x, p);
    case Opcode::gelu:
      return detail::value<Gelu>(x, p);
    case Opcode::gelu_tanh:
      return detail::value<GeluTanh>(x, p);
    case Opcode::tanh:
      return detail::value<Tanh>(x, p);
    case Opcode::sigmoid:
      return detail::value<Sigmoid>(x, p);
    case Opcode::silu:
      return detail::value<Silu>(x, p);
    case Opcode::softplus:
      return detail::value<Softplus>(x, p);
    case Opcode::exp:
      return detail::value<Exp>(x, p);
    case Opcode::log:
      return detail::value<Log>(x, p);
    case Opcode::relu_grad:
      return detail::derivative<Relu>(x, y, p);
    case Opcode::gelu_grad:
      return detail::derivative<Gelu>(x, y, p);
    case Opcode::gelu_tanh_grad:
      return detail::derivative<GeluTanh>(x, y, p);
    case Opcode::tanh_grad:
      return detail::derivative<Tanh>(x, y, p);
    case Opcode::sigmoid_grad:
      return detail::derivative<Sigmoid>(x, y, p);
    case Opcode::silu_grad:
      return detail::derivative<Silu>(x, y, p);
    case Opcode::softplus_grad:
      return detail::derivative<Softplus>(x, y, p);
    case Opcode::exp_grad:
      return detail::derivative<Exp>(x, y, p);
    case Opcode::log_grad:
      return detail::derivative<Log>(x, y, p);
    case Opcode::multiply:
      return detail::map(x, y, [&](float a, float b) { return p.factor * (a * b); });
    case Opcode::scale:
      return detail::map(x, x, [&](float a, float) { return p.factor * a; });
    case Opcode::dropout:
      return detail::dropout(x, p, first, stride);
    case Opcode::add:
      return detail::map(x, y, [&](float a, float b) { return p.factor * (a + b); });
    case Opcode::combine:
      break;
  }
  return detail::map(x, y, [&](float a, float b) { return fmaf(p.factor, a, p.second * b); });
}

}  // namespace sigma1::cuda
