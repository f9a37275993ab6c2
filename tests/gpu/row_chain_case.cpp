#include "tests/gpu/row_chain_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "sigma1/base/error.h"
#include "sigma1/ops/attention.h"
#include "sigma1/ops/conv.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"

namespace sigma1 {
namespace {

int64_t byte_count(const Buffer& buffer) {
  return buffer.count() * (buffer.codec ? buffer.codec->bytes() : 4);
}

// Random numbers by a tensor's place. Those of large tensors repeat, at no multiple of a width, and
// all are drawn once.
std::vector<float> drawn(size_t place, size_t count) {
  constexpr size_t kMostDrawn = 1048573;
  static std::map<size_t, std::vector<float>> all;
  std::vector<float>& known = all[place];
  RandomStream stream(5, "row chain", place);
  for (size_t i = known.size(); i < std::min(count, kMostDrawn); ++i) {
    known.push_back(static_cast<float>(stream.normal(i)));
  }
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = known[i % kMostDrawn];
  return values;
}

const RandomStream kRandom[2];  // nothing is rounded by them, but launches have some

}  // namespace

Buffer RowChainCase::buffer_of(const Shape& shape, const Codec* codec) const {
  Buffer buffer;
  buffer.shape = shape;
  buffer.codec = codec;
  buffer.device = &device_;
  return buffer;
}

RowChainCase::Id RowChainCase::random(const Shape& shape, const std::string& format) {
  return random_like(buffer_of(shape, codec_for(format)));
}

RowChainCase::Id RowChainCase::random_like(const Buffer& tensor) {
  Buffer buffer = buffer_of(tensor.shape, tensor.codec);
  auto memory = std::make_shared<Memory>(device_, byte_count(buffer));
  buffer.data = memory->data();
  if (!is_blank_) {
    std::vector<float> values = drawn(tensors_.size(), static_cast<size_t>(buffer.count()));
    std::vector<std::byte> bytes(static_cast<size_t>(byte_count(buffer)));
    if (buffer.codec) {
      buffer.codec->encode(values.data(), bytes.data(), buffer.count());
    } else {
      std::memcpy(bytes.data(), values.data(), bytes.size());
    }
    memory->write(bytes);
  }
  tensors_.push_back({buffer, -1, memory});
  return tensors_.size() - 1;
}

RowChainCase::Id RowChainCase::rows(int64_t width, const std::string& format) {
  Shape shape = rows_;
  shape.push_back(width);
  return random(shape, format);
}

RowChainCase::Id RowChainCase::apply(const OpDef& op, const std::vector<Id>& inputs, float factor,
                                     const Attributes& attributes, const std::string& format) {
  return apply_as(codec_for(format), op, inputs, factor, attributes);
}

RowChainCase::Id RowChainCase::apply_as(const Codec* stored, const OpDef& op,
                                        const std::vector<Id>& inputs, float factor,
                                        const Attributes& attributes) {
  std::vector<TensorType> types;
  for (Id each : inputs) types.push_back({tensors_[each].buffer.shape});
  Attributes all = op.defaults ? op.defaults(types) : Attributes();
  for (const auto& [name, value] : attributes.entries()) all.set(name, value);
  std::vector<TensorType> outputs = op.infer({types, all});
  Shape shape = outputs.front().shape;
  std::vector<float> factors{factor};
  if (outputs.size() > 1) {
    shape.insert(shape.begin(), std::ssize(outputs));
    factors.push_back(1.25f * factor);
  }
  tensors_.push_back({buffer_of(shape, stored), static_cast<int>(steps_.size()), nullptr});
  steps_.push_back({&op, inputs, tensors_.size() - 1, factors, all});
  return tensors_.size() - 1;
}

std::vector<Buffer> RowChainCase::outputs_of(const Step& step, const Buffer& all) const {
  if (step.factors.size() == 1) return {all};
  std::vector<Buffer> outputs(step.factors.size(), all);
  for (size_t o = 0; o < outputs.size(); ++o) {
    outputs[o].shape.erase(outputs[o].shape.begin());
    if (all.data) outputs[o].data += static_cast<int64_t>(o) * byte_count(outputs[o]);
  }
  return outputs;
}

Launch RowChainCase::launch_of(const Step& step, std::span<const Buffer> inputs,
                               std::span<const Buffer> outputs,
                               std::span<std::byte> workspace) const {
  return {inputs,    outputs, step.attributes, step.factors, std::span(kRandom, outputs.size()),
          workspace, 0};
}

std::string RowChainCase::step_name(size_t step) const {
  return fmt::format("step {}, {}", step, steps_[step].op->name);
}

bool RowChainCase::is_used(size_t step) const {
  for (const Step& each : steps_) {
    for (Id input : each.inputs) {
      if (tensors_[input].step == static_cast<int>(step)) return true;
    }
  }
  return false;
}

std::unique_ptr<RowChainCase::Prepared> RowChainCase::prepare(
    const std::vector<bool>& stored, const std::vector<bool>& turned) const {
  auto made = std::make_unique<Prepared>();
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    Buffer out = tensors_[step.output].buffer;
    auto add_memory = [&](bool wanted, std::vector<std::unique_ptr<Memory>>& memory) {
      memory.push_back(wanted ? std::make_unique<Memory>(device_, byte_count(out)) : nullptr);
      return wanted ? memory.back()->data() : nullptr;
    };
    out.data = add_memory(stored[s], made->memory);
    out.turned = add_memory(!turned.empty() && turned[s], made->turned);
    auto& outputs = made->buffers.emplace_back(outputs_of(step, out));
    auto& inputs = made->buffers.emplace_back();
    std::vector<int> producers;
    for (Id each : step.inputs) {
      inputs.push_back(tensors_[each].buffer);
      producers.push_back(tensors_[each].step);
    }
    made->steps.push_back({step.op, launch_of(step, inputs, outputs), producers});
  }
  return made;
}

RowChainCase::Contents RowChainCase::contents_of(
    const std::vector<std::unique_ptr<Memory>>& memory) const {
  Contents contents(steps_.size());
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (!memory[s]) continue;
    contents[s] = memory[s]->bytes();
    if (!memory[s]->is_intact()) throw Bug("{}: written behind its end", step_name(s));
  }
  return contents;
}

RowChainCase::Contents RowChainCase::run(const std::vector<bool>& stored, const Make& make) const {
  auto prepared = prepare(stored);
  make(prepared->steps)->run(0);
  return contents_of(prepared->memory);
}

std::vector<std::byte> RowChainCase::run_alone(size_t s, const Contents& contents) const {
  return run_alone(s, contents, device_);
}

std::vector<std::byte> RowChainCase::run_alone(size_t s, const Contents& contents,
                                               const Device& device) const {
  const Step& step = steps_[s];
  std::vector<Memory> memory;
  memory.reserve(step.inputs.size() + 1);
  auto place = [&](Buffer buffer, std::span<const std::byte> bytes) {
    memory.emplace_back(device, byte_count(buffer));
    memory.back().write(bytes);
    buffer.data = memory.back().data();
    buffer.device = &device == &cpu_device() ? nullptr : &device;
    return buffer;
  };
  std::vector<Buffer> inputs;
  for (Id each : step.inputs) {
    const TensorOf& tensor = tensors_[each];
    bool is_input = tensor.step < 0;
    inputs.push_back(place(tensor.buffer, is_input ? tensor.memory->bytes()
                                                   : contents[static_cast<size_t>(tensor.step)]));
  }
  std::vector<Buffer> outputs = outputs_of(step, place(tensors_[step.output].buffer, {}));
  const Kernel& kernel = device.find_kernel(*step.op);
  int64_t room = kernel.workspace ? kernel.workspace(launch_of(step, inputs, outputs)) : 0;
  Memory workspace(device, room);
  kernel.run(launch_of(step, inputs, outputs, {workspace.data(), static_cast<size_t>(room)}));
  return memory.back().bytes();
}

void expect_close(const Tensor& got, const Tensor& want, const FloatFormat& format) {
  double largest = 0;
  for (double x : want.data) largest = std::max(largest, std::fabs(x));
  double slack = 64 * std::ldexp(1.0, -24) * largest;
  int64_t wrong = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    double spacing = std::max(std::ldexp(std::fabs(want[i]), -format.mantissa_bits),
                              std::ldexp(1.0, format.min_exponent() - format.mantissa_bits));
    if (std::fabs(got[i] - want[i]) <= spacing + slack) continue;
    if (wrong++ == 0) {
      ADD_FAILURE() << "element " << i << ": got " << got[i] << ", expected " << want[i];
    }
  }
  EXPECT_EQ(wrong, 0) << "elements of " << want.count();
}

namespace {

// Where two contents of a tensor differ.
std::string difference(const Buffer& of, const std::vector<std::byte>& a,
                       const std::vector<std::byte>& b) {
  Tensor x = decoded(of, a), y = decoded(of, b);
  int64_t count = 0, first = -1, last = -1;
  for (int64_t i = 0; i < x.count(); ++i) {
    if (x[i] == y[i]) continue;
    ++count, last = i;
    if (first < 0) first = i;
  }
  return fmt::format("{} of {} numbers, {} to {}", count, x.count(), first, last);
}

}  // namespace

void expect_the_same(const RowChainCase& chain, const std::vector<bool>& stored,
                     const RowChainCase::Make& make, const RowChainCase::Contents& contents) {
  auto again = chain.run(stored, make);
  for (size_t s = 0; s < stored.size(); ++s) {
    if (!stored[s] || contents[s] == again[s]) continue;
    ADD_FAILURE() << chain.step_name(s) << " of a chain that runs again: "
                  << difference(chain.output(s), contents[s], again[s]);
  }
}

namespace {

// Weights of a softmax are rounded too: of the errors' norm over the results', as of attention's
// own kernels.
void expect_close_in_norm(const Tensor& got, const Tensor& want, const FloatFormat& format) {
  double off = 0, norm = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    off += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  EXPECT_LE(std::sqrt(off / norm), std::ldexp(1.0, -format.mantissa_bits));
}

}  // namespace

RowChainCase::Contents expect_each_step(const RowChainCase& chain, const RowChainCase::Make& make) {
  size_t steps = chain.step_count();
  auto contents = chain.run(std::vector<bool>(steps, true), make);
  for (size_t s = 0; s < steps; ++s) {
    SCOPED_TRACE(chain.step_name(s));
    const Buffer& out = chain.output(s);
    auto expect = &chain.op(s) == &attention_op ? expect_close_in_norm : expect_close;
    expect(decoded(out, contents[s]), decoded(out, chain.run_alone(s, contents)),
           out.codec->cast().format);
  }
  return contents;
}

void expect_as_single_kernels(const RowChainCase& chain, const RowChainCase::Make& make) {
  RowChainCase::Contents contents = expect_each_step(chain, make);
  size_t steps = chain.step_count();
  std::vector<bool> ends(steps);
  for (size_t s = 0; s < steps; ++s) ends[s] = !chain.is_used(s) || s % 3 == 0;
  for (const std::vector<bool>& stored : {std::vector<bool>(steps, true), ends}) {
    expect_the_same(chain, stored, make, contents);
  }
}

namespace {

float rsqrt_of(int64_t n) { return 1 / std::sqrt(static_cast<float>(n)); }

}  // namespace

namespace {

// The chains' own way of naming what they are made of.
struct Layer {
  RowChainCase& c;
  int64_t width, hidden;

  size_t linear(size_t x, int64_t m, int64_t n) const {
    return c.apply(linear_op, {x, c.random({m, n}), c.random({n})}, 0.75f * rsqrt_of(m));
  }
  size_t sum_and_norm(size_t x, size_t y) const {
    size_t sum =
        c.apply(weighted_add_op, {x, y}, 0.875f, {{"weights", std::vector<double>{0.6, 0.8}}});
    return c.apply(layer_norm_op, {sum, c.random({width}), c.random({width})}, 0.75f);
  }
  size_t feed_forward(size_t x) const {
    size_t inner = c.apply(relu_op, {linear(x, width, hidden)}, 1.375f);
    return sum_and_norm(x, linear(inner, hidden, width));
  }

  size_t by_transposed(size_t x, int64_t m, int64_t n) const {
    return c.apply(matmul_op, {x, c.random({n, m})}, 0.75f * rsqrt_of(m),
                   {{"transpose_right", true}});
  }
  size_t norm_grad(size_t dy) const {
    return c.apply(layer_norm_grad_op, {c.rows(width), c.random({width}), dy}, 0.75f,
                   {{"eps", 1e-5}, {"has_bias", true}});
  }
  size_t feed_forward_grad(size_t dy) const {
    size_t inner =
        c.apply(relu_grad_op, {c.rows(hidden), by_transposed(dy, width, hidden)}, 1.375f);
    return c.apply(add_op, {dy, norm_grad(by_transposed(inner, hidden, width))}, 0.75f);
  }
};

Layer layer_of(RowChainCase& c, const RowChainSizes& sizes) {
  return {c, sizes.width, sizes.hidden};
}

RowChainCase chain_of_samples(const Device& device, const RowChainSizes& sizes) {
  return {device, Shape{sizes.rows / sizes.time, sizes.time}, sizes.format};
}

constexpr int64_t kTaps = 7, kGroup = 16;

Attributes causal_conv(int64_t width) {
  return {{"stride", int64_t{1}},
          {"dilation", int64_t{1}},
          {"groups", width / kGroup},
          {"causal", true}};
}

}  // namespace

RowChainCase forward_chain(const Device& device, const RowChainSizes& sizes) {
  RowChainCase c(device, sizes.rows, sizes.format);
  Layer layer = layer_of(c, sizes);
  size_t attended = c.rows(sizes.width), residual = c.rows(sizes.width);
  size_t x = layer.sum_and_norm(residual, layer.linear(attended, sizes.width, sizes.width));
  size_t y = layer.feed_forward(x);
  for (int i = 0; i < 3; ++i) {
    c.apply(matmul_op, {y, c.random({sizes.width, sizes.width})}, rsqrt_of(sizes.width));
  }
  return c;
}

RowChainCase backward_chain(const Device& device, const RowChainSizes& sizes) {
  RowChainCase c(device, sizes.rows, sizes.format);
  Layer layer = layer_of(c, sizes);
  int64_t width = sizes.width;
  size_t dy = layer.by_transposed(c.rows(width), width, width);
  for (int i = 0; i < 2; ++i) {
    dy = c.apply(add_op, {dy, layer.by_transposed(c.rows(width), width, width)}, 0.75f);
  }
  size_t dx = c.apply(add_op, {layer.norm_grad(dy), c.rows(width)}, 0.75f);
  layer.by_transposed(layer.feed_forward_grad(dx), width, width);
  return c;
}

RowChainCase attention_chain(const Device& device, const RowChainSizes& sizes) {
  RowChainCase c = chain_of_samples(device, sizes);
  Layer layer = layer_of(c, sizes);
  int64_t width = sizes.width;
  size_t q = c.rows(width), k = c.rows(width), v = c.rows(width);
  Attributes attributes{{"heads", sizes.heads},
                        {"causal", true},
                        {"has_relative", true},
                        {"has_mask", false},
                        {"multiplier", 0.75}};
  size_t attended =
      c.apply(attention_op, {q, k, v, c.random({sizes.time, width})}, 1.75f, attributes);
  size_t x = layer.sum_and_norm(c.rows(width), layer.linear(attended, width, width));
  size_t y = layer.feed_forward(x);
  for (int i = 0; i < 3; ++i) {
    c.apply(matmul_op, {y, c.random({width, width})}, rsqrt_of(width));
  }
  return c;
}

RowChainCase conv_chain(const Device& device, const RowChainSizes& sizes) {
  RowChainCase c = chain_of_samples(device, sizes);
  Layer layer = layer_of(c, sizes);
  int64_t width = sizes.width;
  size_t mixed =
      c.apply(conv1d_op, {c.rows(width), c.random({kTaps, kGroup, width}), c.random({width})},
              0.75f * rsqrt_of(kTaps * kGroup), causal_conv(width));
  size_t x = layer.sum_and_norm(c.rows(width), c.apply(relu_op, {mixed}, 1.375f));
  layer.feed_forward(x);
  return c;
}

RowChainCase conv_grad_chain(const Device& device, const RowChainSizes& sizes) {
  RowChainCase c = chain_of_samples(device, sizes);
  Layer layer = layer_of(c, sizes);
  int64_t width = sizes.width;
  Attributes attributes = causal_conv(width);
  attributes.set("time", sizes.time);
  size_t dx = c.apply(conv1d_grad_input_op, {c.rows(width), c.random({kTaps, kGroup, width})},
                      0.75f * rsqrt_of(kTaps * kGroup), attributes);
  size_t dy = c.apply(add_op, {layer.norm_grad(dx), c.rows(width)}, 0.75f);
  c.apply(relu_grad_op, {c.rows(width), layer.feed_forward_grad(dy)}, 0.625f);
  return c;
}

RowChainCase crossing_products(const Device& device, int64_t width) {
  RowChainCase c(device, 20, "fp16");
  auto times_square = [&](size_t x) {
    return c.apply(matmul_op, {x, c.random({width, width})}, rsqrt_of(width));
  };
  size_t x = c.apply(relu_op, {c.rows(width)});
  size_t y = times_square(x);
  size_t z = times_square(c.apply(silu_op, {c.apply(add_op, {y, c.rows(width)})}));
  size_t sum = c.apply(add_op, {x, y, z}, 0.75f);
  c.apply(add_op, {times_square(sum), times_square(y), z}, 0.75f);
  return c;
}

void for_many_sizes(const Device& device,
                    RowChainCase (*make)(const Device& device, const RowChainSizes& sizes),
                    void (*check)(const RowChainCase& chain)) {
  const RowChainSizes all[] = {{32, 128, 512},         {37, 48, 80},    {1, 64, 272},
                               {50, 144, 160, "bf16"}, {100, 112, 336}, {130, 16, 32, "bf16"},
                               {40, 192, 384}};
  for (const RowChainSizes& sizes : all) {
    SCOPED_TRACE(fmt::format("{}x{}x{}", sizes.rows, sizes.width, sizes.hidden));
    check(make(device, sizes));
  }
}

}  // namespace sigma1
