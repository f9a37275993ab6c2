#include "sigma1/backend/cuda/turn.cuh"

#include "sigma1/backend/cuda/launch.cuh"
#include "sigma1/backend/node_call.h"
#include "sigma1/base/error.h"
#include "sigma1/ops/linear.h"

namespace sigma1::cuda {
namespace {

bool is_8_bit(const Buffer& buffer) {
  if (buffer.kind != Kind::real || buffer.codec == nullptr) return false;
  std::optional<Type> type = find_type(buffer.codec->cast().format);
  return type == Type::e4m3 || type == Type::e5m2;
}

// Rows and columns are multiples of 16.
__global__ void turn_squares(const uint8_t* from, uint8_t* to, int64_t rows, int64_t width) {
  __shared__ TurnRoom room;
  int64_t row = TurnRoom::first_row() + TurnRoom::row();
  int64_t column = TurnRoom::first_column() + TurnRoom::column();
  if (row < rows && column < width) {
    uint32_t words[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      words[k] = *reinterpret_cast<const uint32_t*>(from + (row + k) * width + column);
    }
    room.put(words);
  }
  __syncthreads();
  room.take(to, rows, width);
}

}  // namespace

bool reads_turned(const Graph& graph, int node, size_t input) {
  const Node& product = graph.node(node);
  bool is_matmul = product.op == &matmul_op;
  if ((!is_matmul && product.op != &linear_op) || input > 1) return false;
  constexpr int64_t kGranule = 16;
  for (size_t i = 0; i < 2; ++i) {
    const Shape& shape = product.inputs[i].shape();
    bool granules =
        shape.back() % kGranule == 0 && element_count(shape) / shape.back() % kGranule == 0;
    if (!is_8_bit(buffer_of(graph, product.inputs[i])) || !granules) return false;
  }
  if (product.inputs[1].shape().size() != 2) return false;
  if (!is_matmul) return input == 1;
  return product.attributes.get<bool>(input == 0 ? "transpose_left" : "transpose_right") ==
         (input == 0);
}

void turn(const Buffer& buffer) {
  int64_t width = buffer.shape.back(), rows = buffer.count() / width;
  if (rows % 16 != 0 || width % 16 != 0) throw Bug("cuda: no [{}, {}] is turned", rows, width);
  launch_kernel("turning a matrix", turn_squares, {turn_blocks(rows, width), kThreads},
                reinterpret_cast<const uint8_t*>(buffer.data),
                reinterpret_cast<uint8_t*>(buffer.turned), rows, width);
}

}  // namespace sigma1::cuda
