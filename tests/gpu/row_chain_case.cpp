#include "tests/gpu/row_chain_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "sigma1/base/error.h"
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

Buffer RowChainCase::buffer_of(const Shape& shape, const std::string& format) const {
  Buffer buffer;
  buffer.shape = shape;
  buffer.codec = codec_of(format.empty() ? format_ : format);
  buffer.device = &device_;
  return buffer;
}

RowChainCase::Id RowChainCase::random(const Shape& shape, const std::string& format) {
  Buffer buffer = buffer_of(shape, format);
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

RowChainCase::Id RowChainCase::apply(const OpDef& op, const std::vector<Id>& inputs, float factor,
                                     const Attributes& attributes, const std::string& format) {
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
  tensors_.push_back({buffer_of(shape, format), static_cast<int>(steps_.size()), nullptr});
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

RowChainCase::Contents RowChainCase::run(const std::vector<bool>& stored, int rows_of_block) const {
  auto prepared = prepare(stored);
  cuda::RowChain(prepared->steps, rows_of_block).run(0);
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

float rsqrt_of(int64_t n) { return 1 / std::sqrt(static_cast<float>(n)); }

}  // namespace

RowChainCase forward_chain(const Device& device, const RowChainSizes& sizes) {
  RowChainCase c(device, sizes.rows, sizes.format);
  int64_t width = sizes.width, hidden = sizes.hidden;
  auto linear = [&](size_t x, int64_t m, int64_t n) {
    return c.apply(linear_op, {x, c.random({m, n}), c.random({n})}, 0.75f * rsqrt_of(m));
  };
  auto sum_and_norm = [&](size_t x, size_t y) {
    size_t sum =
        c.apply(weighted_add_op, {x, y}, 0.875f, {{"weights", std::vector<double>{0.6, 0.8}}});
    return c.apply(layer_norm_op, {sum, c.random({width}), c.random({width})}, 0.75f);
  };
  size_t attended = c.rows(width), residual = c.rows(width);
  size_t x = sum_and_norm(residual, linear(attended, width, width));
  size_t inner = c.apply(relu_op, {linear(x, width, hidden)}, 1.375f);
  size_t y = sum_and_norm(x, linear(inner, hidden, width));
  for (int i = 0; i < 3; ++i) {
    c.apply(matmul_op, {y, c.random({width, width})}, rsqrt_of(width));
  }
  return c;
}

RowChainCase backward_chain(const Device& device, const RowChainSizes& sizes) {
  RowChainCase c(device, sizes.rows, sizes.format);
  int64_t width = sizes.width, hidden = sizes.hidden;
  auto by_transposed = [&](size_t x, int64_t m, int64_t n) {
    return c.apply(matmul_op, {x, c.random({n, m})}, 0.75f * rsqrt_of(m),
                   {{"transpose_right", true}});
  };
  auto norm_grad = [&](size_t dy) {
    return c.apply(layer_norm_grad_op, {c.rows(width), c.random({width}), dy}, 0.75f,
                   {{"eps", 1e-5}, {"has_bias", true}});
  };
  size_t dy = by_transposed(c.rows(width), width, width);
  for (int i = 0; i < 2; ++i) {
    dy = c.apply(add_op, {dy, by_transposed(c.rows(width), width, width)}, 0.75f);
  }
  size_t dx = c.apply(add_op, {norm_grad(dy), c.rows(width)}, 0.75f);
  size_t inner = c.apply(relu_grad_op, {c.rows(hidden), by_transposed(dx, width, hidden)}, 1.375f);
  size_t branch = norm_grad(by_transposed(inner, hidden, width));
  size_t sum = c.apply(add_op, {dx, branch}, 0.75f);
  by_transposed(sum, width, width);
  return c;
}

}  // namespace sigma1
