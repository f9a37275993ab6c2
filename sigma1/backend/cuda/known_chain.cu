#include "sigma1/backend/cuda/known_chain.cuh"

#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/square_sums.cuh"

namespace sigma1::cuda {
namespace {

template <class Activation>
struct ValueOf {
  static constexpr bool kBinary = false;
  __device__ static float apply(float x, float, const Parameters& p) {
    return p.factor * Activation::value(p.multiplier * x);
  }
};
template <class Activation>
struct GradientOf {
  static constexpr bool kBinary = true;
  __device__ static float apply(float x, float dy, const Parameters& p) {
    return p.factor * (Activation::derivative(p.multiplier * x) * dy);
  }
};
struct Scaled {
  static constexpr bool kBinary = false;
  __device__ static float apply(float x, float, const Parameters& p) { return p.factor * x; }
};

struct Known {
  const void *x, *y;
  void* out;
  Parameters parameters;
};

// Four neighbours of four rows, from number `first` on.
template <Type kType>
struct FourRows {
  using Codes = EightCodes<kType>;
  static constexpr int kWords = Codes::kWords / 2;  // of a row
  Codes two[2];                                     // rows at a time

  __device__ static FourRows read(const void* from, int64_t first, int64_t width) {
    FourRows rows;
    const auto* at = static_cast<const std::byte*>(from) + first * Codes::kBytes;
#pragma unroll
    for (int r = 0; r < 4; ++r, at += width * Codes::kBytes) {
      uint2 words = *reinterpret_cast<const uint2*>(at);
      rows.two[r / 2].words[r % 2 * kWords] = words.x;
      rows.two[r / 2].words[r % 2 * kWords + 1] = words.y;
    }
    return rows;
  }
  __device__ void write(void* to, int64_t first, int64_t width) const {
    auto* at = static_cast<std::byte*>(to) + first * Codes::kBytes;
#pragma unroll
    for (int r = 0; r < 4; ++r, at += width * Codes::kBytes) {
      const uint32_t* words = two[r / 2].words + r % 2 * kWords;
      if constexpr (kWords == 1) {
        *reinterpret_cast<uint32_t*>(at) = words[0];
      } else {
        *reinterpret_cast<uint2*>(at) = {words[0], words[1]};
      }
    }
  }
};

// As interpret_squares.
template <class Op, Type kIn, Type kOut, bool sums>
__global__ void __launch_bounds__(kThreads, 4)
    run_squares(const __grid_constant__ Known known, SquareTarget to) {
  constexpr bool kNarrow = EightCodes<kOut>::kWords == 2;
  __shared__ TurnRoom room;
  __shared__ SquareSums columns;
  int64_t row = TurnRoom::first_row() + TurnRoom::row();
  int64_t column = TurnRoom::first_column() + TurnRoom::column();
  Four sum{};
  if (row < to.rows && column < to.width) {
    int64_t first = row * to.width + column;
    auto x = FourRows<kIn>::read(known.x, first, to.width), y = x;
    if constexpr (Op::kBinary) y = FourRows<kIn>::read(known.y, first, to.width);
    FourRows<kOut> codes;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      Eight numbers = x.two[half].numbers(), others = y.two[half].numbers();
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        numbers.at[k] = Op::apply(numbers.at[k], others.at[k], known.parameters);
      }
      codes.two[half] = EightCodes<kOut>::of(numbers, kNarrow);
      if constexpr (sums) {
#pragma unroll
        for (int k = 0; k < 4; ++k) sum.at[k] += numbers.at[k] + numbers.at[4 + k];
      }
    }
    codes.write(known.out, first, to.width);
    if constexpr (kNarrow) {
      uint32_t words[4] = {codes.two[0].words[0], codes.two[0].words[1], codes.two[1].words[0],
                           codes.two[1].words[1]};
      if (to.turned) room.put(words);
    }
  }
  if constexpr (sums) columns.put(sum);
  if (!sums && !to.turned) return;
  __syncthreads();
  if (to.turned) room.take(to.turned, to.rows, to.width);
  if constexpr (sums) columns.take(to.partials, to.width);
}

template <class Op, Type kIn, Type kOut>
void launch(const Known& known, const SquareTarget& to) {
  auto kernel = to.partials ? run_squares<Op, kIn, kOut, true> : run_squares<Op, kIn, kOut, false>;
  launch_kernel("pointwise", kernel, {turn_blocks(to.rows, to.width), kThreads}, known, to);
}

// Activations go forward as E4M3, gradients back as E5M2.
template <class Op, Type kIn>
bool run_op(Type out, const Known& known, const SquareTarget& to) {
  if (out == kIn) {
    launch<Op, kIn, kIn>(known, to);
  } else if (out == Type::e5m2) {
    launch<Op, kIn, Type::e5m2>(known, to);
  } else if (out == Type::e4m3) {
    launch<Op, kIn, Type::e4m3>(known, to);
  } else {
    return false;
  }
  return true;
}

template <Type kIn>
bool run_opcode(Opcode opcode, Type out, const Known& known, const SquareTarget& to) {
  switch (opcode) {
    case Opcode::relu:
      return run_op<ValueOf<Relu>, kIn>(out, known, to);
    case Opcode::gelu:
      return run_op<ValueOf<Gelu>, kIn>(out, known, to);
    case Opcode::gelu_tanh:
      return run_op<ValueOf<GeluTanh>, kIn>(out, known, to);
    case Opcode::relu_grad:
      return run_op<GradientOf<Relu>, kIn>(out, known, to);
    case Opcode::gelu_grad:
      return run_op<GradientOf<Gelu>, kIn>(out, known, to);
    case Opcode::gelu_tanh_grad:
      return run_op<GradientOf<GeluTanh>, kIn>(out, known, to);
    case Opcode::scale:
      return run_op<Scaled, kIn>(out, known, to);
    default:
      return false;
  }
}

// A tensor of 16 bits, as large as the result.
bool is_known(const Operand& operand, const Output& to) {
  const View& view = operand.input.view;
  return operand.instruction == Operand::kLoaded && operand.input.packs && view.scale == nullptr &&
         view.count == to.view.count && (view.type == Type::fp16 || view.type == Type::bf16);
}

}  // namespace

bool run_known(const Instruction& only, const Output& to, const Buffer& out, float* sums) {
  constexpr int64_t kFewest = 1 << 20;
  const View& x = only.x.input.view;
  bool is_binary = only.y.instruction != Operand::kNone;
  if (to.view.count < kFewest || !is_known(only.x, to)) return false;
  if (is_binary && (!is_known(only.y, to) || only.y.input.view.type != x.type)) return false;
  bool is_narrow = to.view.type == Type::e4m3 || to.view.type == Type::e5m2;
  if (!to.packs || to.stochastic || to.view.saturates != is_narrow) return false;
  SquareTarget squares(out, sums);
  if (squares.rows % 16 != 0 || squares.width % 16 != 0) return false;
  Known known{x.data, is_binary ? only.y.input.view.data : nullptr, to.view.data, only.parameters};
  return x.type == Type::fp16 ? run_opcode<Type::fp16>(only.opcode, to.view.type, known, squares)
                              : run_opcode<Type::bf16>(only.opcode, to.view.type, known, squares);
}

}  // namespace sigma1::cuda
