#include "sigma1/ops/conv.h"

#include <algorithm>

#include "sigma1/backend/cpu/gemm.h"
#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/backend/cpu/whole.h"
#include "sigma1/base/parallel.h"

// A tap of a group is a matrix product on rows as they lie, of x or of y every stride-th. Nothing
// is copied into columns: for the paper's 16 channels a group, that would cost more than a faster
// product gives back.
namespace sigma1::cpu {
namespace {

struct Range {
  int64_t begin, end;
  int64_t size() const { return std::max<int64_t>(0, end - begin); }
};

int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

// The outputs t whose tap reads inputs [first, last).
Range readers(const ConvDims& d, int64_t tap, int64_t first, int64_t last) {
  int64_t shift = d.input_time(0, tap);
  auto first_at_or_after = [&](int64_t time) {
    return time <= shift ? 0 : ceil_div(time - shift, d.stride);
  };
  return {first_at_or_after(first), std::min(d.time_out, first_at_or_after(last))};
}

Range overlap(Range a, Range b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

// Where the first numbers of one tap's factors lie in x, w and y, for outputs from t on.
struct Places {
  int64_t x, w, y;

  Places(const ConvDims& d, int64_t batch, int64_t group, int64_t tap, int64_t t)
      : x((batch * d.time + d.input_time(t, tap)) * d.c_in + group * d.group_in()),
        w(tap * d.group_in() * d.c_out + group * d.group_out()),
        y((batch * d.time_out + t) * d.c_out + group * d.group_out()) {}
};

// Calls body(batch, group, rows) for pieces of all batches' [0, times): enough of them for many
// threads, each with enough work for a product to be fast.
template <class Body>
void for_each_piece(const ConvDims& d, int64_t times, Body body) {
  int64_t rows = std::clamp<int64_t>((1 << 16) / (d.group_in() * d.group_out()), 64, 256);
  int64_t pieces = ceil_div(times, rows);
  parallel_for(static_cast<size_t>(d.batch * pieces * d.groups), 1, [&](size_t index, size_t) {
    auto i = static_cast<int64_t>(index);
    int64_t group = i % d.groups, piece = i / d.groups % pieces;
    body(i / d.groups / pieces, group, Range{piece * rows, std::min(times, (piece + 1) * rows)});
  });
}

// One group's columns of rows of n numbers: `values`, or zeros where that is null.
void fill_columns(float* rows, int64_t count, int64_t stride, int64_t n, const float* values) {
  for (int64_t row = 0; row < count; ++row) {
    float* to = rows + row * stride;
    if (values == nullptr) {
      std::fill_n(to, n, 0.0F);
    } else {
      std::copy_n(values, n, to);
    }
  }
}

// The first two inputs and the output as fp32.
struct Plan {
  Arena arena;
  float *a, *b, *output;

  explicit Plan(const Launch& launch)
      : arena(launch.workspace),
        a(arena.like(launch.in(0))),
        b(arena.like(launch.in(1))),
        output(arena.like(launch.out())) {}
};

int64_t workspace(const Launch& launch) { return Plan(launch).arena.bytes(); }

struct ForwardPlan {
  Plan plan;
  float* bias = nullptr;  // times the factor

  explicit ForwardPlan(const Launch& launch) : plan(launch) {
    if (launch.inputs.size() == 3) bias = plan.arena.floats(launch.in(2).count());
  }
};

int64_t forward_workspace(const Launch& launch) { return ForwardPlan(launch).plan.arena.bytes(); }

void run_conv1d(const Launch& launch) {
  ForwardPlan forward(launch);
  const auto& plan = forward.plan;
  float* bias = forward.bias;
  ConvDims d = conv_dims(launch.in(0).shape, launch.in(1).shape, launch.attributes);
  const float *x = load_whole(launch.in(0), plan.a), *w = load_whole(launch.in(1), plan.b);
  float* y = target_whole(launch.out(), plan.output);
  if (bias) vectors().scale(load(launch.in(2), 0, d.c_out, bias), bias, d.c_out, launch.factor());
  for_each_piece(d, d.time_out, [&](int64_t batch, int64_t group, Range rows) {
    int64_t column = group * d.group_out();
    fill_columns(y + (batch * d.time_out + rows.begin) * d.c_out + column, rows.size(), d.c_out,
                 d.group_out(), bias ? bias + column : nullptr);
    for (int64_t tap = 0; tap < d.kernel; ++tap) {
      Range t = overlap(rows, readers(d, tap, 0, d.time));
      if (t.size() == 0) continue;
      Places at(d, batch, group, tap, t.begin);
      Gemm product{.m = t.size(),
                   .n = d.group_out(),
                   .k = d.group_in(),
                   .lda = d.stride * d.c_in,
                   .ldb = d.c_out,
                   .ldc = d.c_out,
                   .alpha = launch.factor(),
                   .beta = 1};
      gemm(product, x + at.x, w + at.w, y + at.y);
    }
  });
  store_whole(launch, 0, y);
}

void run_conv1d_grad_input(const Launch& launch) {
  Plan plan(launch);
  ConvDims d = conv_dims(launch.out().shape, launch.in(1).shape, launch.attributes);
  const float *dy = load_whole(launch.in(0), plan.a), *w = load_whole(launch.in(1), plan.b);
  float* dx = target_whole(launch.out(), plan.output);
  for_each_piece(d, d.time, [&](int64_t batch, int64_t group, Range rows) {
    fill_columns(dx + (batch * d.time + rows.begin) * d.c_in + group * d.group_in(), rows.size(),
                 d.c_in, d.group_in(), nullptr);
    for (int64_t tap = 0; tap < d.kernel; ++tap) {
      Range t = readers(d, tap, rows.begin, rows.end);
      if (t.size() == 0) continue;
      Places at(d, batch, group, tap, t.begin);
      Gemm product{.m = t.size(),
                   .n = d.group_in(),
                   .k = d.group_out(),
                   .transpose_b = true,
                   .lda = d.c_out,
                   .ldb = d.c_out,
                   .ldc = d.stride * d.c_in,
                   .alpha = launch.factor(),
                   .beta = 1};
      gemm(product, dy + at.y, w + at.w, dx + at.x);
    }
  });
  store_whole(launch, 0, dx);
}

// Some input channels of one tap: sums over the batches in their order.
void grad_weight_piece(const ConvDims& d, int64_t tap, int64_t group, Range channels,
                       const float* x, const float* dy, float* dw, float factor) {
  Range t = readers(d, tap, 0, d.time);
  Places first(d, 0, group, tap, t.begin);
  dw += first.w + channels.begin * d.c_out;
  fill_columns(dw, channels.size(), d.c_out, d.group_out(), nullptr);
  for (int64_t batch = 0; batch < d.batch && t.size() > 0; ++batch) {
    Places at(d, batch, group, tap, t.begin);
    Gemm product{.m = channels.size(),
                 .n = d.group_out(),
                 .k = t.size(),
                 .transpose_a = true,
                 .lda = d.stride * d.c_in,
                 .ldb = d.c_out,
                 .ldc = d.c_out,
                 .alpha = factor,
                 .beta = 1};
    gemm(product, x + at.x + channels.begin, dy + at.y, dw);
  }
}

void run_conv1d_grad_weight(const Launch& launch) {
  constexpr int64_t kChannels = 64;
  Plan plan(launch);
  ConvDims d = conv_dims(launch.in(0).shape, launch.out().shape, launch.attributes);
  const float *x = load_whole(launch.in(0), plan.a), *dy = load_whole(launch.in(1), plan.b);
  float* dw = target_whole(launch.out(), plan.output);
  int64_t pieces = ceil_div(d.group_in(), kChannels);
  parallel_for(static_cast<size_t>(d.kernel * d.groups * pieces), 1, [&](size_t index, size_t) {
    auto i = static_cast<int64_t>(index);
    int64_t begin = i % pieces * kChannels, group = i / pieces % d.groups;
    Range channels{begin, std::min(d.group_in(), begin + kChannels)};
    grad_weight_piece(d, i / pieces / d.groups, group, channels, x, dy, dw, launch.factor());
  });
  store_whole(launch, 0, dw);
}

constexpr Kernel kKernels[] = {
    {&conv1d_op, run_conv1d, forward_workspace},
    {&conv1d_grad_input_op, run_conv1d_grad_input, workspace},
    {&conv1d_grad_weight_op, run_conv1d_grad_weight, workspace},
};

}  // namespace

std::span<const Kernel> conv_kernels() { return kKernels; }

}  // namespace sigma1::cpu
