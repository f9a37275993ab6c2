#include "sigma1/backend/cpu/pointwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/cpu/pieces.h"
#include "sigma1/backend/cpu/vectors.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"

namespace sigma1::cpu {
namespace {

template <Activation f>
void activation_tile(const Launch& launch, int64_t, int64_t count, const float* const* inputs,
                     float* output) {
  auto m = static_cast<float>(launch.attributes.get_or("multiplier", 1.0));
  if (m == 1) return vectors().activation(f, inputs[0], output, count, launch.factor());
  vectors().scale(inputs[0], output, count, m);
  vectors().activation(f, output, output, count, launch.factor());
}

template <Activation f>
void activation_grad_tile(const Launch& launch, int64_t, int64_t count, const float* const* inputs,
                          float* output) {
  auto m = static_cast<float>(launch.attributes.get_or("multiplier", 1.0));
  if (m == 1) {
    return vectors().activation_grad(f, inputs[0], inputs[1], output, count, launch.factor());
  }
  float x[kTile];  // the output may be where dy is
  vectors().scale(inputs[0], x, count, m);
  vectors().activation_grad(f, x, inputs[1], output, count, m * launch.factor());
}

void mul_tile(const Launch& launch, int64_t, int64_t count, const float* const* inputs,
              float* output) {
  vectors().multiply(inputs[0], inputs[1], output, count, launch.factor());
}

void scale_tile(const Launch& launch, int64_t, int64_t count, const float* const* inputs,
                float* output) {
  auto factor = static_cast<float>(launch.attr<double>("factor") * launch.factor());
  vectors().scale(inputs[0], output, count, factor);
}

void identity_tile(const Launch& launch, int64_t, int64_t count, const float* const* inputs,
                   float* output) {
  vectors().scale(inputs[0], output, count, launch.factor());
}

void dropout_tile(const Launch& launch, int64_t first, int64_t count, const float* const* inputs,
                  float* output) {
  double p = launch.attr<double>("p");
  auto factor = static_cast<float>(launch.factor() / (1 - p));
  if (drops_none(p)) return vectors().scale(inputs[0], output, count, factor);
  RandomStream random(static_cast<uint64_t>(launch.attr<int64_t>("seed")),
                      launch.attr<std::string>("stream"), launch.step);
  vectors().dropout(inputs[0], output, count,
                    {.key = random.key(),
                     .step = random.step(),
                     .first_index = static_cast<uint64_t>(first),
                     .last_dropped = last_dropped_word(p),
                     .factor = factor});
}

// Σ weightᵢ·inputᵢ. Three or more are summed beside the output, which may be one of them.
template <class Weight>
void add_tile(size_t terms, int64_t count, const float* const* inputs, float* output,
              Weight weight) {
  const VectorKernels& v = vectors();
  if (terms == 1) return v.scale(inputs[0], output, count, weight(0));
  float room[kTile];
  float* sum = terms == 2 ? output : room;
  v.combine(inputs[0], inputs[1], sum, count, weight(0), weight(1));
  for (size_t i = 2; i < terms; ++i) v.add_scaled(inputs[i], sum, count, weight(i));
  if (sum != output) std::copy_n(sum, count, output);
}

void add_tile(const Launch& launch, int64_t, int64_t count, const float* const* inputs,
              float* output) {
  if (launch.inputs.size() == 2)
    return vectors().scale_add(inputs[0], inputs[1], output, count, launch.factor());
  add_tile(launch.inputs.size(), count, inputs, output, [&](size_t) { return launch.factor(); });
}

void weighted_add_tile(const Launch& launch, int64_t, int64_t count, const float* const* inputs,
                       float* output) {
  const auto& weights = launch.attr<std::vector<double>>("weights");
  add_tile(weights.size(), count, inputs, output,
           [&](size_t i) { return static_cast<float>(weights[i] * launch.factor()); });
}

constexpr PointwiseOp kOps[] = {
    {&relu_op, activation_tile<Activation::relu>},
    {&gelu_op, activation_tile<Activation::gelu>},
    {&gelu_tanh_op, activation_tile<Activation::gelu_tanh>},
    {&tanh_op, activation_tile<Activation::tanh>},
    {&sigmoid_op, activation_tile<Activation::sigmoid>},
    {&silu_op, activation_tile<Activation::silu>},
    {&softplus_op, activation_tile<Activation::softplus>},
    {&exp_op, activation_tile<Activation::exp>},
    {&log_op, activation_tile<Activation::log>},
    {&relu_grad_op, activation_grad_tile<Activation::relu>},
    {&gelu_grad_op, activation_grad_tile<Activation::gelu>},
    {&gelu_tanh_grad_op, activation_grad_tile<Activation::gelu_tanh>},
    {&tanh_grad_op, activation_grad_tile<Activation::tanh>},
    {&sigmoid_grad_op, activation_grad_tile<Activation::sigmoid>},
    {&silu_grad_op, activation_grad_tile<Activation::silu>},
    {&softplus_grad_op, activation_grad_tile<Activation::softplus>},
    {&exp_grad_op, activation_grad_tile<Activation::exp>},
    {&log_grad_op, activation_grad_tile<Activation::log>},
    {&mul_op, mul_tile},
    {&scale_op, scale_tile},
    {&identity_op, identity_tile},
    {&dropout_op, dropout_tile},
    {&add_op, add_tile},
    {&weighted_add_op, weighted_add_tile},
};

template <TileFunction tile>
void run(const Launch& launch) {
  const Buffer& out = launch.out();
  for_tiles(out.count(), [&](int64_t first, int64_t count) {
    thread_local std::vector<const float*> inputs;  // keeps its memory from call to call
    inputs.resize(launch.inputs.size());
    float* room = thread_room((inputs.size() + 1) * kTile);
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = load_tile(launch.in(i), first, count, out.count(), room + i * kTile);
    }
    float* output = target(out, first, room + inputs.size() * kTile);
    tile(launch, first, count, inputs.data(), output);
    store(out, first, count, output, launch.random[0]);
  });
}

bool in_place(size_t, size_t) { return true; }

template <size_t... i>
constexpr std::array<Kernel, sizeof...(i)> make_kernels(std::index_sequence<i...>) {
  return {Kernel{kOps[i].op, run<kOps[i].tile>, nullptr, in_place}...};
}

constexpr auto kKernels = make_kernels(std::make_index_sequence<std::size(kOps)>());

}  // namespace

const PointwiseOp* find_pointwise(const OpDef& op) {
  const PointwiseOp* found =
      std::find_if(std::begin(kOps), std::end(kOps), [&](auto& each) { return each.op == &op; });
  return found == std::end(kOps) ? nullptr : found;
}

bool drops_none(double p) { return p * 0x1p32 <= 0.5; }

uint32_t last_dropped_word(double p) {
  return static_cast<uint32_t>(std::ceil(p * 0x1p32 - 0.5) - 1);
}

const float* load_tile(const Buffer& buffer, int64_t first, int64_t count, int64_t whole_count,
                       float* room) {
  int64_t period = buffer.count(), phase = first % period;
  if (period == whole_count || phase + count <= period) return load(buffer, phase, count, room);
  // One period from its phase on, then copies of what is there already.
  auto append = [&](int64_t from, int64_t to, int64_t n) {
    const float* values = load(buffer, from, n, room + to);
    if (values != room + to) std::copy_n(values, n, room + to);
  };
  append(phase, 0, period - phase);
  int64_t done = period - phase;
  int64_t before = std::min(phase, count - done);
  append(0, done, before);
  done += before;
  while (done < count) {
    int64_t more = std::min(done, count - done);
    std::copy_n(room, more, room + done);
    done += more;
  }
  return room;
}

std::span<const Kernel> pointwise_kernels() { return kKernels; }

}  // namespace sigma1::cpu
