// Norms of a block's rows and their gradients, and pointwise ops that stand alone: a row belongs to
// a warp, so that its sums need no barrier. Private to this folder.
#pragma once

#include "sigma1/backend/cuda/row_pointwise.cuh"

namespace sigma1::cuda {

// Columns of a row that a warp has at once.
constexpr int kRowColumns = 32 * 4;

// Rows that a warp sums up at once, so that their sums do not wait for each other: tall blocks have
// four to a warp, and registers for two.
template <int kRows>
constexpr int kRowsAtOnce = kRows == kTallBlock ? 2 : 1;

// Calls body(the first of some rows of the warp, kWorkers / 32 from each to the next).
template <int kRows, int kAtOnce, class Body>
__device__ void for_rows(Body body) {
  constexpr int kStep = kWorkers / 32 * kAtOnce;
#pragma unroll 1
  for (int row = thread_of_block<kRows>() / 32; row < kRows; row += kStep) body(row);
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

// A number for each of some rows.
template <int kAtOnce>
struct ByRow {
  float at[kAtOnce] = {};

  __device__ ByRow divided(float by) const {
    ByRow result;
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) result.at[r] = at[r] / by;
    return result;
  }
};

// Over the columns of rows; every thread of the rows gets the results.
template <bool kFits, int kAtOnce, class Terms>
__device__ ByRow<kAtOnce> sums_of_rows(int width, Terms terms) {
  ByRow<kAtOnce> sums;
  for_columns<kFits>(width, [&](int column) {
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      Four x = terms(r, column);
      sums.at[r] += (x.at[0] + x.at[1]) + (x.at[2] + x.at[3]);
    }
  });
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
#pragma unroll
    for (float& sum : sums.at) sum += __shfl_xor_sync(0xffffffff, sum, step);
  }
  return sums;
}

// What a thread reads of rows several times: once where it fits.
template <bool kFits, int kAtOnce, class Read>
class RowNumbers {
 public:
  __device__ RowNumbers(int width, Read read) : read_(read) {
    if constexpr (kFits) {
      for_columns<true>(width, [&](int column) {
#pragma unroll
        for (int r = 0; r < kAtOnce; ++r) only_[r] = read_(r, column);
      });
    }
  }
  __device__ Four operator()(int r, int column) const {
    if constexpr (kFits) return only_[r];
    return read_(r, column);
  }

 private:
  Read read_;
  Four only_[kAtOnce] = {};
};

template <bool kFits, int kAtOnce, class Read>
__device__ auto row_numbers(int width, Read read) {
  return RowNumbers<kFits, kAtOnce, Read>(width, read);
}

template <int kAtOnce>
struct RowStatistics {
  ByRow<kAtOnce> mean, inverse_scale;

  __device__ Four xhat(int r, const Four& x) const {
    return detail::map(x, x,
                       [&](float a, float) { return (a - mean.at[r]) * inverse_scale.at[r]; });
  }
};

template <bool kFits, int kAtOnce, class Numbers>
__device__ RowStatistics<kAtOnce> statistics(const RowStep& step, const Numbers& x) {
  int width = step.out.width;
  auto count = static_cast<float>(width);
  RowStatistics<kAtOnce> result;
  ByRow<kAtOnce>&mean = result.mean, &inverse_scale = result.inverse_scale;
  if (step.centred) mean = sums_of_rows<kFits, kAtOnce>(width, x).divided(count);
  // Around the mean rather than E[x²] − μ², which loses digits.
  inverse_scale = sums_of_rows<kFits, kAtOnce>(width, [&](int r, int column) {
    Four at = x(r, column);
    return detail::map(at, at, [&](float a, float) { return (a - mean.at[r]) * (a - mean.at[r]); });
  });
#pragma unroll
  for (float& each : inverse_scale.at) each = 1 / sqrtf(each / count + step.eps);
  return result;
}

template <int kRows, Type kType, bool kFits>
__device__ void normalise_rows(const RowBlock& block, const RowStep& step) {
  constexpr int kAtOnce = kRowsAtOnce<kRows>;
  bool has_w = step.weights.offset != Slot::kNone, has_c = step.bias.offset != Slot::kNone;
  StepEnd<kRows, kType> end(block, step);
  for_rows<kRows, kAtOnce>([&](int first) {
    auto place = [=](int r, int column) { return RowPlace{first + r * kWorkers / 32, column}; };
    auto x = row_numbers<kFits, kAtOnce>(step.out.width, [&](int r, int column) {
      return read<kType>(block, step.x, place(r, column));
    });
    RowStatistics<kAtOnce> of_rows = statistics<kFits, kAtOnce>(step, x);
    for_columns<kFits>(step.out.width, [&](int column) {
      RowPlace places[kAtOnce];
      Four values[kAtOnce];
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
        places[r] = place(r, column);
        values[r] = of_rows.xhat(r, x(r, column));
        if (has_w) values[r] = product_of(values[r], read(block, step.weights, column));
        Four bias = has_c ? read(block, step.bias, column) : Four{};
        values[r] =
            detail::map(values[r], bias, [&](float a, float b) { return (a + b) * step.factor; });
      }
      end.finish(places, values);
    });
  });
}

// With respect to the rows alone; what w and c get is summed over all rows, elsewhere.
template <int kRows, Type kType, bool kFits>
__device__ void normalise_grad_rows(const RowBlock& block, const RowStep& step) {
  constexpr int kAtOnce = kRowsAtOnce<kRows>;
  bool has_w = step.weights.offset != Slot::kNone;
  int width = step.out.width;
  auto count = static_cast<float>(width);
  StepEnd<kRows, kType> end(block, step);
  for_rows<kRows, kAtOnce>([&](int first) {
    auto place = [=](int r, int column) { return RowPlace{first + r * kWorkers / 32, column}; };
    auto x = row_numbers<kFits, kAtOnce>(
        width, [&](int r, int column) { return read<kType>(block, step.x, place(r, column)); });
    auto dxhat = row_numbers<kFits, kAtOnce>(width, [&](int r, int column) {
      Four dy = read<kType>(block, step.dy, place(r, column));
      return has_w ? product_of(dy, read(block, step.weights, column)) : dy;
    });
    RowStatistics<kAtOnce> of_rows = statistics<kFits, kAtOnce>(step, x);
    ByRow<kAtOnce> mean;
    if (step.centred) mean = sums_of_rows<kFits, kAtOnce>(width, dxhat).divided(count);
    auto along_x = [&](int r, int column) {
      return product_of(dxhat(r, column), of_rows.xhat(r, x(r, column)));
    };
    ByRow<kAtOnce> along = sums_of_rows<kFits, kAtOnce>(width, along_x).divided(count);
    for_columns<kFits>(width, [&](int column) {
      RowPlace places[kAtOnce];
      Four values[kAtOnce];
#pragma unroll
      for (int r = 0; r < kAtOnce; ++r) {
        places[r] = place(r, column);
        float outer = step.factor * of_rows.inverse_scale.at[r];
        values[r] = detail::map(
            dxhat(r, column), of_rows.xhat(r, x(r, column)),
            [&](float a, float b) { return outer * (a - mean.at[r] - b * along.at[r]); });
      }
      end.finish(places, values);
    });
  });
}

template <int kRows, Type kType>
__device__ void apply_pointwise(const RowBlock& block, const RowStep& step) {
  RowEnd<kType> end(block, step);
  for_rows<kRows, 1>([&](int row) {
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
