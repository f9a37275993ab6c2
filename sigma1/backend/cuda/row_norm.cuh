// Norms of a block's rows and their gradients, and pointwise ops that stand alone: a row belongs to
// a warp, so that its sums need no barrier. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/row_pointwise.cuh"

namespace sigma1::cuda {

// Columns of a row that a warp has at once.
constexpr int kRowColumns = 32 * 4;

template <int kRows, class Body>
__device__ void for_rows(Body body) {
#pragma unroll 1
  for (int row = static_cast<int>(threadIdx.x) / 32; row < kRows; row += kWorkers / 32) body(row);
}

// Of the thread, four at a time: the same ones in all rows. kFits: the warp has all at once.
template <bool kFits, class Body>
__device__ void for_columns(int width, Body body) {
  int first = static_cast<int>(threadIdx.x) % 32 * 4;
  if constexpr (kFits) {
    if (first < width) body(first);
  } else {
#pragma unroll 1
    for (int column = first; column < width; column += kRowColumns) body(column);
  }
}

__device__ inline Four product_of(const Four& x, const Four& y) {
  return detail::map(x, y, [](float a, float b) { return a * b; });
}

// Over the columns of a row; every thread of the row gets the result.
template <bool kFits, class Terms>
__device__ float sum_of_row(int width, Terms terms) {
  float sum = 0;
  for_columns<kFits>(width, [&](int column) {
    Four x = terms(column);
    sum += (x.at[0] + x.at[1]) + (x.at[2] + x.at[3]);
  });
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  return sum;
}

// What a thread reads of a row several times: once where it fits.
template <bool kFits, class Read>
class RowNumbers {
 public:
  __device__ RowNumbers(int width, Read read) : read_(read) {
    if constexpr (kFits) for_columns<true>(width, [&](int column) { only_ = read_(column); });
  }
  __device__ Four operator()(int column) const {
    if constexpr (kFits) return only_;
    return read_(column);
  }

 private:
  Read read_;
  Four only_{};
};

template <bool kFits, class Read>
__device__ auto row_numbers(int width, Read read) {
  return RowNumbers<kFits, Read>(width, read);
}

struct RowStatistics {
  float mean, inverse_scale;

  __device__ Four xhat(const Four& x) const {
    return detail::map(x, x, [&](float a, float) { return (a - mean) * inverse_scale; });
  }
};

template <bool kFits, class Numbers>
__device__ RowStatistics statistics(const RowStep& step, const Numbers& x) {
  int width = step.out.width;
  auto count = static_cast<float>(width);
  float mean = step.centred ? sum_of_row<kFits>(width, x) / count : 0;
  // Around the mean rather than E[x²] − μ², which loses digits.
  float square = sum_of_row<kFits>(width, [&](int column) {
    Four at = x(column);
    return detail::map(at, at, [&](float a, float) { return (a - mean) * (a - mean); });
  });
  return {mean, 1 / sqrtf(square / count + step.eps)};
}

template <int kRows, Type kType, bool kFits>
__device__ void normalise_rows(const RowBlock& block, const RowStep& step) {
  bool has_w = step.weights.offset != Slot::kNone, has_c = step.bias.offset != Slot::kNone;
  RowEnd<kType> end(block, step);
  for_rows<kRows>([&](int row) {
    auto x = row_numbers<kFits>(step.out.width, [&](int column) {
      return read<kType>(block, step.x, {row, column});
    });
    RowStatistics row_statistics = statistics<kFits>(step, x);
    for_columns<kFits>(step.out.width, [&](int column) {
      Four values = row_statistics.xhat(x(column));
      if (has_w) values = product_of(values, read(block, step.weights, column));
      Four bias = has_c ? read(block, step.bias, column) : Four{};
      values = detail::map(values, bias, [&](float a, float b) { return (a + b) * step.factor; });
      end.finish({row, column}, values);
    });
  });
}

// With respect to the rows alone; what w and c get is summed over all rows, elsewhere.
template <int kRows, Type kType, bool kFits>
__device__ void normalise_grad_rows(const RowBlock& block, const RowStep& step) {
  bool has_w = step.weights.offset != Slot::kNone;
  int width = step.out.width;
  auto count = static_cast<float>(width);
  RowEnd<kType> end(block, step);
  for_rows<kRows>([&](int row) {
    auto x = row_numbers<kFits>(width, [&](int column) {
      return read<kType>(block, step.x, {row, column});
    });
    auto dxhat = row_numbers<kFits>(width, [&](int column) {
      Four dy = read<kType>(block, step.dy, {row, column});
      return has_w ? product_of(dy, read(block, step.weights, column)) : dy;
    });
    RowStatistics row_statistics = statistics<kFits>(step, x);
    auto along_x = [&](int column) {
      return product_of(dxhat(column), row_statistics.xhat(x(column)));
    };
    float mean = step.centred ? sum_of_row<kFits>(width, dxhat) / count : 0;
    float along = sum_of_row<kFits>(width, along_x) / count;
    float outer = step.factor * row_statistics.inverse_scale;
    for_columns<kFits>(width, [&](int column) {
      Four dx = detail::map(dxhat(column), row_statistics.xhat(x(column)),
                            [&](float a, float b) { return outer * (a - mean - b * along); });
      end.finish({row, column}, dx);
    });
  });
}

template <int kRows, Type kType>
__device__ void apply_pointwise(const RowBlock& block, const RowStep& step) {
  RowEnd<kType> end(block, step);
  for_rows<kRows>([&](int row) {
    for_columns<false>(step.out.width, [&](int column) { end.run({row, column}, {}); });
  });
}

// Any step but a product.
template <int kRows, Type kType>
__device__ __forceinline__ void run_by_rows(const RowBlock& block, const RowStep& step) {
  bool fits = step.out.width <= kRowColumns;
  if (step.op == RowOp::pointwise) {
    apply_pointwise<kRows, kType>(block, step);
  } else if (step.op == RowOp::norm) {
    fits ? normalise_rows<kRows, kType, true>(block, step)
         : normalise_rows<kRows, kType, false>(block, step);
  } else {
    fits ? normalise_grad_rows<kRows, kType, true>(block, step)
         : normalise_grad_rows<kRows, kType, false>(block, step);
  }
}

}  // namespace sigma1::cuda
