#include "sigma1/ops/conv.h"

#include "tests/conformance/at.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

using Tensors = std::vector<Tensor>;

struct Sizes {
  int64_t batch, time, c_in, kernel, c_out;
};

Attributes attributes_of(const Conv1dOptions& options) {
  return {{"stride", options.stride},
          {"dilation", options.dilation},
          {"groups", options.groups},
          {"causal", options.causal}};
}

std::vector<TensorType> inputs_of(const Sizes& n, int64_t groups, bool with_bias) {
  std::vector<TensorType> types{{{n.batch, n.time, n.c_in}},
                                {{n.kernel, n.c_in / groups, n.c_out}}};
  if (with_bias) types.push_back({{n.c_out}});
  return types;
}

// The tap through which output t sees input p; −1 for none.
int64_t tap_between(int64_t p, int64_t t, const Sizes& n, const Conv1dOptions& o) {
  int64_t newest = t * o.stride + (o.causal ? 0 : (n.kernel - 1) * o.dilation), age = newest - p;
  bool seen = age >= 0 && age % o.dilation == 0 && age / o.dilation < n.kernel;
  return seen ? n.kernel - 1 - age / o.dilation : -1;
}

int64_t output_count(const Sizes& n, const Conv1dOptions& o) {
  int64_t count = 0;
  for (int64_t first = o.causal ? 0 : (n.kernel - 1) * o.dilation; first < n.time;
       first += o.stride) {
    ++count;
  }
  return count;
}

// The convolution as one big matrix: how much output (t, to) takes from input (p, from).
double weight_between(const Tensor& w, int64_t p, int64_t from, int64_t t, int64_t to,
                      const Sizes& n, const Conv1dOptions& o) {
  int64_t tap = tap_between(p, t, n, o), group_in = n.c_in / o.groups;
  bool same_group = from / group_in == to / (n.c_out / o.groups);
  return tap >= 0 && same_group ? at(w, {tap, from % group_in, to}) : 0;
}

Tensors convolve(const Tensors& in, const Sizes& n, const Conv1dOptions& o) {
  return {tensor_of(n.batch, output_count(n, o), n.c_out, [&](int64_t b, int64_t t, int64_t to) {
    double sum = in.size() == 3 ? in[2][to] : 0;
    for (int64_t p = 0; p < n.time; ++p) {
      for (int64_t from = 0; from < n.c_in; ++from) {
        sum += at(in[0], {b, p, from}) * weight_between(in[1], p, from, t, to, n, o);
      }
    }
    return sum;
  })};
}

// Of dy and w.
Tensors input_gradient(const Tensors& in, const Sizes& n, const Conv1dOptions& o) {
  return {tensor_of(n.batch, n.time, n.c_in, [&](int64_t b, int64_t p, int64_t from) {
    double sum = 0;
    for (int64_t t = 0; t < output_count(n, o); ++t) {
      for (int64_t to = 0; to < n.c_out; ++to) {
        sum += at(in[0], {b, t, to}) * weight_between(in[1], p, from, t, to, n, o);
      }
    }
    return sum;
  })};
}

// Of x and dy.
Tensors weight_gradient(const Tensors& in, const Sizes& n, const Conv1dOptions& o) {
  int64_t group_in = n.c_in / o.groups, group_out = n.c_out / o.groups;
  return {tensor_of(n.kernel, group_in, n.c_out, [&](int64_t tap, int64_t channel, int64_t to) {
    int64_t from = to / group_out * group_in + channel;
    double sum = 0;
    for (int64_t b = 0; b < n.batch; ++b) {
      for (int64_t p = 0; p < n.time; ++p) {
        for (int64_t t = 0; t < output_count(n, o); ++t) {
          bool meet = tap_between(p, t, n, o) == tap;
          if (meet) sum += at(in[0], {b, p, from}) * at(in[1], {b, t, to});
        }
      }
    }
    return sum;
  })};
}

ConformanceCase conv_case(std::string label, const Conv1dOptions& options, bool with_bias,
                          const Sizes& small, const Sizes& large) {
  return {std::move(label),
          &conv1d_op,
          inputs_of(small, options.groups, with_bias),
          attributes_of(options),
          [=](const Tensors& in) { return convolve(in, small, options); },
          inputs_of(large, options.groups, with_bias),
          attributes_of(options)};
}

std::vector<ConformanceCase> gradient_cases(const std::string& label, const Conv1dOptions& options,
                                            const Sizes& n) {
  std::vector<TensorType> types = inputs_of(n, options.groups, false);
  TensorType x = types[0], w = types[1], dy{{n.batch, output_count(n, options), n.c_out}};
  Attributes for_input = attributes_of(options), for_weight = for_input;
  for_input.set("time", n.time);
  for_weight.set("kernel", n.kernel);
  return {{label,
           &conv1d_grad_input_op,
           {dy, w},
           for_input,
           [=](const Tensors& in) { return input_gradient(in, n, options); },
           {},
           {}},
          {label,
           &conv1d_grad_weight_op,
           {x, dy},
           for_weight,
           [=](const Tensors& in) { return weight_gradient(in, n, options); },
           {},
           {}}};
}

}  // namespace

std::vector<ConformanceCase> conv_cases() {
  Conv1dOptions plain, strided{.stride = 3}, dilated{.dilation = 2}, grouped{.groups = 2};
  Conv1dOptions causal{.causal = true};
  Conv1dOptions all{.stride = 2, .dilation = 3, .groups = 2, .causal = true};
  Conv1dOptions all_valid{.stride = 2, .dilation = 3, .groups = 2};
  // [batch, time, c_in, kernel, c_out]; time 9 leaves inputs that no stride-3 window of 2 reads.
  Sizes small{2, 7, 4, 3, 6}, gaps{2, 9, 3, 2, 5}, longer{2, 11, 4, 3, 6}, brief{2, 3, 4, 5, 6};
  Sizes large{6, 40, 48, 5, 96}, wide{8, 30, 32, 3, 4096};
  std::vector<ConformanceCase> cases{
      conv_case("plain", plain, false, small, large),
      conv_case("strided", strided, false, gaps, {6, 60, 48, 2, 96}),
      conv_case("dilated", dilated, false, small, large),
      conv_case("grouped", grouped, false, small, large),
      conv_case("causal", causal, false, small, large),
      conv_case("causal and shorter than the kernel", causal, false, brief, {40, 5, 32, 9, 64}),
      conv_case("all options", all, false, longer, large),
      conv_case("all options but causal", all_valid, false, longer, large),
      // Many channels, so that the bias has enough gradients to measure; groups keep that cheap.
      conv_case("bias", {.groups = 16}, true, {2, 7, 16, 3, 32}, wide),
      conv_case("causal with bias", {.groups = 16, .causal = true}, true, {2, 7, 16, 3, 32}, wide),
  };
  for (const auto& group :
       {gradient_cases("plain", plain, small), gradient_cases("strided", strided, gaps),
        gradient_cases("all options", all, longer), gradient_cases("brief", causal, brief)}) {
    cases.insert(cases.end(), group.begin(), group.end());
  }
  return cases;
}

}  // namespace sigma1
