#include "sigma1/backend/cuda/known_chain.cuh"

#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/cuda/square_sums.cuh"
#include "sigma1/backend/cuda/tall_tile.cuh"

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

// Of a multiprocessor: those with two tensors have twice as many numbers under way.
template <class Op>
constexpr int kBlocksAtOnce = Op::kBinary ? 3 : 4;

struct Known {
  const void *x, *y;
  void* out;
  Parameters parameters;
};

// Eight neighbours of each of four rows, from number `first` on.
template <Type kIn>
struct FourRows {
  EightCodes<kIn> of[4];

  __device__ FourRows(const void* from, int64_t first, int64_t width, bool inside) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const uint4 four = load_16(static_cast<const uint16_t*>(from) + first + r * width, inside);
      of[r] = {four.x, four.y, four.z, four.w};
    }
  }
};

template <class Op, Type kIn, Type kOut, bool sums>
__global__ void __launch_bounds__(kThreads, kBlocksAtOnce<Op>)
    run_tiles(const __grid_constant__ Known known, SquareTarget to) {
  constexpr bool kNarrow = EightCodes<kOut>::kWords == 2;
  __shared__ TurnedTile tile;
  __shared__ TileColumnSums columns;
  const int64_t row = TallTile::first_row() + 4 * TallTile::four();
  const int64_t column = TallTile::first_column() + TallTile::column();
  const int64_t first = row * to.width + column;
  const bool inside = row < to.rows && column < to.width;
  const FourRows<kIn> x(known.x, first, to.width, inside);
  const FourRows<kIn> y(known.y, first, to.width, inside && Op::kBinary);
  __syncwarp();  // the compiler moves no read behind it: all are under way before one is used
  Eight sum{};
  if (inside) {
    uint32_t words[4][2];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      Eight numbers = x.of[r].numbers();
      const Eight others = Op::kBinary ? y.of[r].numbers() : numbers;
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        numbers.at[k] = Op::apply(numbers.at[k], others.at[k], known.parameters);
        if constexpr (sums) sum.at[k] += numbers.at[k];
      }
      const auto codes = EightCodes<kOut>::of(numbers, kNarrow);
      codes.write(known.out, first + r * to.width);
      words[r][0] = codes.words[0];
      words[r][1] = codes.words[1];
    }
    if constexpr (kNarrow) {
      if (to.turned) tile.put(words);
    }
  }
  if constexpr (sums) columns.put(sum);
  if (!sums && !to.turned) return;
  __syncthreads();
  if (to.turned) tile.take(to.turned, to.rows, to.width);
  if constexpr (sums) columns.take(to.partials, to.width);
}

template <class Op, Type kIn, Type kOut>
void launch(const Known& known, const SquareTarget& to) {
  auto kernel = to.partials ? run_tiles<Op, kIn, kOut, true> : run_tiles<Op, kIn, kOut, false>;
  launch_kernel("pointwise", kernel, {TallTile::blocks(to.rows, to.width), kThreads}, known, to);
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
  return operand.instruction == Operand::kLoaded && packs_eight(view, 8) && view.scale == nullptr &&
         view.count == to.view.count && (view.type == Type::fp16 || view.type == Type::bf16);
}

}  // namespace

std::optional<int64_t> run_known(const Instruction& only, const Output& to, const Buffer& out,
                                 float* sums) {
  constexpr int64_t kFewest = 1 << 20;
  const View& x = only.x.input.view;
  bool is_binary = only.y.instruction != Operand::kNone;
  if (to.view.count < kFewest || !is_known(only.x, to)) return {};
  if (is_binary && (!is_known(only.y, to) || only.y.input.view.type != x.type)) return {};
  bool is_narrow = to.view.type == Type::e4m3 || to.view.type == Type::e5m2;
  if (!packs_eight(to.view, 8) || to.stochastic || to.view.saturates != is_narrow) return {};
  SquareTarget tiles(out, sums);
  if (tiles.rows % 16 != 0 || tiles.width % 16 != 0) return {};
  Known known{x.data, is_binary ? only.y.input.view.data : nullptr, to.view.data, only.parameters};
  bool runs = x.type == Type::fp16
                  ? run_opcode<Type::fp16>(only.opcode, to.view.type, known, tiles)
                  : run_opcode<Type::bf16>(only.opcode, to.view.type, known, tiles);
  if (!runs) return {};
  return TallTile::down(tiles.rows);
}

}  // namespace sigma1::cuda
