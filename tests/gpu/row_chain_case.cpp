#include "tests/gpu/row_chain_case.h"

#include <cmath>
#include <cstring>

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

const RandomStream kRandom;  // nothing is rounded by it, but a launch has one

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
  RandomStream stream(5, "row chain", tensors_.size());
  std::vector<float> values(static_cast<size_t>(buffer.count()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(stream.normal(i));
  std::vector<std::byte> bytes(static_cast<size_t>(byte_count(buffer)));
  if (buffer.codec) {
    buffer.codec->encode(values.data(), bytes.data(), buffer.count());
  } else {
    std::memcpy(bytes.data(), values.data(), bytes.size());
  }
  auto memory = std::make_shared<Memory>(device_, byte_count(buffer));
  memory->write(bytes);
  buffer.data = memory->data();
  tensors_.push_back({buffer, -1, memory});
  return tensors_.size() - 1;
}

RowChainCase::Id RowChainCase::apply(const OpDef& op, const std::vector<Id>& inputs, float factor,
                                     const Attributes& attributes, const std::string& format) {
  std::vector<TensorType> types;
  for (Id each : inputs) types.push_back({tensors_[each].buffer.shape});
  Attributes all = op.defaults ? op.defaults(types) : Attributes();
  for (const auto& [name, value] : attributes.entries()) all.set(name, value);
  Shape shape = op.infer({types, all}).front().shape;
  tensors_.push_back({buffer_of(shape, format), static_cast<int>(steps_.size()), nullptr});
  steps_.push_back({&op, inputs, tensors_.size() - 1, factor, all});
  return tensors_.size() - 1;
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
    const std::vector<bool>& stored) const {
  auto made = std::make_unique<Prepared>();
  for (size_t s = 0; s < steps_.size(); ++s) {
    const Step& step = steps_[s];
    Buffer out = tensors_[step.output].buffer;
    made->memory.push_back(stored[s] ? std::make_unique<Memory>(device_, byte_count(out))
                                     : nullptr);
    if (stored[s]) out.data = made->memory.back()->data();
    auto& outputs = made->buffers.emplace_back(std::vector{out});
    auto& inputs = made->buffers.emplace_back();
    std::vector<int> producers;
    for (Id each : step.inputs) {
      inputs.push_back(tensors_[each].buffer);
      producers.push_back(tensors_[each].step);
    }
    Launch launch{inputs, outputs, step.attributes, {&step.factor, 1}, {&kRandom, 1}, {}, 0};
    made->steps.push_back({step.op, launch, producers});
  }
  return made;
}

RowChainCase::Contents RowChainCase::run(const std::vector<bool>& stored, int rows_of_block) const {
  auto prepared = prepare(stored);
  cuda::RowChain(prepared->steps, rows_of_block).run(0);
  Contents contents(steps_.size());
  for (size_t s = 0; s < steps_.size(); ++s) {
    if (!stored[s]) continue;
    contents[s] = prepared->memory[s]->bytes();
    if (!prepared->memory[s]->is_intact()) throw Bug("{}: written behind its end", step_name(s));
  }
  return contents;
}

std::vector<std::byte> RowChainCase::run_alone(size_t s, const Contents& contents) const {
  const Step& step = steps_[s];
  std::vector<Memory> memory;
  memory.reserve(step.inputs.size());
  std::vector<Buffer> inputs, outputs{tensors_[step.output].buffer};
  for (Id each : step.inputs) {
    inputs.push_back(tensors_[each].buffer);
    if (tensors_[each].step < 0) continue;
    memory.emplace_back(device_, byte_count(inputs.back()));
    memory.back().write(contents[static_cast<size_t>(tensors_[each].step)]);
    inputs.back().data = memory.back().data();
  }
  Memory result(device_, byte_count(outputs[0]));
  outputs[0].data = result.data();
  const Kernel& kernel = device_.find_kernel(*step.op);
  auto launch_with = [&](std::span<std::byte> workspace) {
    return Launch{inputs, outputs, step.attributes, {&step.factor, 1}, {&kRandom, 1}, workspace, 0};
  };
  int64_t room = kernel.workspace ? kernel.workspace(launch_with({})) : 0;
  Memory workspace(device_, room);
  kernel.run(launch_with({workspace.data(), static_cast<size_t>(room)}));
  return result.bytes();
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
