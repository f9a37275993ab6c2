#include "sigma1/backend/cuda/cluster_reach.cuh"

#include <cmath>
#include <numbers>

#include "sigma1/backend/cuda/row_local.cuh"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/conv.h"

namespace sigma1::cuda {
namespace {

int columns_of_warp(int width, const ClusterShape& shape) {
  return slice_of(slice_of(width, shape.ranks), column_warps(shape.ranks));
}

struct AttentionStep {
  const Launch& launch;
  int time = static_cast<int>(launch.in(0).shape[1]);
  int width = static_cast<int>(width_of(launch.in(0)));
  bool causal = launch.attr<bool>("causal"), has_relative = launch.attr<bool>("has_relative");

  // One head a block, so that all of its warps share keys.
  bool fits(const ClusterShape& shape) const {
    int heads = static_cast<int>(launch.attr<int64_t>("heads"));
    bool one_head = heads == shape.ranks && width % (16 * heads) == 0;
    return one_head && launch.in(1).shape[1] == time && time % shape.rows == 0;
  }

  std::string write(const ClusterShape& shape, ClusterInputs& inputs, ClusterPhases& phases) const {
    auto sample = [&](size_t input, bool is_shared) {
      return inputs.other_rows(launch.in(input), time, "copy_sample",
                               fmt::format("{}, {}, {}", time, causal, is_shared));
    };
    int q = inputs.columns(launch.in(0)), k = sample(1, false), v = sample(2, false);
    std::string relative = "kNoDistances";
    if (has_relative) relative = fmt::format("kPlace{}", sample(3, true));
    int warps = shape.threads() / 32;
    int room = phases.add_place(
        std::max(weights_bytes(shape.rows, time), has_relative ? skew_bytes(warps) : 0));
    int largest = phases.add_place(stats_bytes(shape.rows, shape.ranks));
    int sums = phases.add_place(stats_bytes(shape.rows, shape.ranks));
    double per_head = static_cast<double>(width) / shape.ranks;
    double temperature =
        launch.attr<double>("multiplier") / std::sqrt(per_head) * std::numbers::log2e;
    return fmt::format(
        "Attending<Columns<{}>, {}, {}, kPlace{}, kPlace{}, kPlace{}, {}, kPlace{}, kPlace{}, "
        "kPlace{}>{{Columns<{}>{{block}}}}.run({})",
        width, time, causal, q, k, v, relative, room, largest, sums, width,
        inputs.factor(static_cast<float>(temperature)));
  }
};

// From the rows of y or of dy.
struct ConvStep {
  bool is_grad;
  const Launch& launch;
  ConvDims d = is_grad ? conv_dims(launch.out().shape, launch.in(1).shape, launch.attributes)
                       : conv_dims(launch.in(0).shape, launch.in(1).shape, launch.attributes);

  bool fits(const ClusterShape& shape) const {
    auto are_whole = [&](int64_t channels, int64_t group) {
      return group % 16 == 0 && channels % shape.ranks == 0 && channels / shape.ranks % group == 0;
    };
    int64_t group = is_grad ? d.group_in() : d.group_out();
    int width = static_cast<int>(width_of(launch.out()));
    return d.stride == 1 && d.dilation == 1 && d.time_out == d.time && d.time % shape.rows == 0 &&
           are_whole(d.c_in, d.group_in()) && are_whole(d.c_out, d.group_out()) &&
           group % columns_of_warp(width, shape) == 0;
  }

  std::string write(const ClusterShape& shape, ClusterInputs& inputs) const {
    int64_t taps = d.kernel, reach = taps - 1;
    int64_t before = is_grad ? reach - d.padding : d.padding;
    int64_t from = is_grad ? d.group_out() : d.group_in(),
            to = is_grad ? d.group_in() : d.group_out();
    const Buffer &x = launch.in(0), &w = launch.in(1);
    int rows = shape.rows + static_cast<int>(reach);
    int window = inputs.other_rows(x, rows, "copy_window",
                                   fmt::format("{}, {}, {}", d.time, before, reach - before));
    auto height = static_cast<int>(taps * d.group_in()), across = static_cast<int>(d.c_out);
    ClusterInputs::Matrix matrix = inputs.matrix(w, height, across, false, false);
    std::string columns = fmt::format("Columns<{}>{{block}}", width_of(launch.out()));
    std::string weights =
        is_grad
            ? fmt::format("turned_taps<kPlace{}, {}, {}, {}, {}>({})", matrix.place, matrix.stride,
                          taps, from, to, columns)
            : fmt::format("weights<false, kPlace{}, {}>({})", matrix.place, matrix.stride, columns);
    return fmt::format("multiply<{}>({}, window_terms<kPlace{}, {}, {}, {}>({}), {})", taps * from,
                       columns, window, width_of(x), from, to, columns, weights);
  }
};

}  // namespace

bool can_reach(const ChainStep& step, const ClusterShape& shape) {
  if (step.op == &attention_op) return AttentionStep{step.launch}.fits(shape);
  return ConvStep{step.op == &conv1d_grad_input_op, step.launch}.fits(shape);
}

std::string reach(const ChainStep& step, const ClusterShape& shape, ClusterInputs& inputs,
                  ClusterPhases& phases) {
  if (step.op == &attention_op) return AttentionStep{step.launch}.write(shape, inputs, phases);
  return ConvStep{step.op == &conv1d_grad_input_op, step.launch}.write(shape, inputs);
}

}  // namespace sigma1::cuda
