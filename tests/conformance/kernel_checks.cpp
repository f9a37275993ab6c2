#include "tests/conformance/kernel_checks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sigma1/backend/simulate.h"
#include "sigma1/base/parallel.h"
#include "sigma1/ops/conv.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/recurrent.h"

namespace sigma1 {
namespace {

const Storage kStorages[] = {
    {"fp32", {"fp32"}, {"fp32"}},
    {"fp8 to fp16", {"e4m3", "e5m2"}, {"fp16"}},
    {"fp16", {"fp16"}, {"fp16"}},
    {"bf16", {"bf16"}, {"bf16"}},
    {"e4m3", {"e4m3"}, {"e4m3"}},
    {"e5m2", {"e5m2"}, {"e5m2"}},
    {"fp32, first output fp16", {"fp32"}, {"fp16", "fp32"}},
    {"fp32, unit factors", {"fp32"}, {"fp32"}, true},
    {"bf16, unit factors", {"bf16"}, {"bf16"}, true},
    {"e4m3, unit factors", {"e4m3"}, {"e4m3"}, true},
    {"fp8 in turn, unit factors", {"e4m3", "e5m2"}, {"e4m3"}, true},
};

// Roundings that a result's error may add up to, of the size of the largest result: some of each
// step, and a random walk of those of a sum. Sums of some ten thousand terms stay below.
constexpr double kRoundings = 64;

double largest_magnitude(const Tensor& tensor) {
  double largest = 0;
  for (double x : tensor.data) largest = std::max(largest, std::fabs(x));
  return largest;
}

// Libraries of matrix products may cut their sums by the number of threads.
bool sums_depend_on_threads(const OpDef& op) {
  const OpDef* products[] = {&matmul_op,
                             &linear_op,
                             &conv1d_op,
                             &conv1d_grad_input_op,
                             &conv1d_grad_weight_op,
                             &recurrent_highway_op,
                             &recurrent_highway_grad_op};
  return std::ranges::find(products, &op) != std::end(products);
}

bool could_lie_in(const Buffer& output, const Buffer& input) {
  return output.codec == input.codec && output.kind == input.kind &&
         output.count() == input.count();
}

// Each way by itself, and as many as go together, which is how an optimiser's step is run.
std::vector<KernelCall::Places> in_place_ways(const KernelCall& call) {
  const Kernel& kernel = call.kernel();
  std::vector<KernelCall::Places> ways;
  if (kernel.in_place == nullptr) return ways;
  KernelCall::Places together(call.output_count());
  std::set<size_t> taken;
  for (size_t o = 0; o < call.output_count(); ++o) {
    for (size_t i = 0; i < call.inputs().size(); ++i) {
      if (!kernel.in_place(i, o) || !could_lie_in(call.output(o), call.input(i))) continue;
      ways.emplace_back(call.output_count())[o] = i;
      if (!together[o] && taken.insert(i).second) together[o] = i;
    }
  }
  if (taken.size() > 1) ways.push_back(together);
  return ways;
}

}  // namespace

std::span<const Storage> all_storages() { return kStorages; }

Sample::Sample(const ConformanceCase& of, const Device& on) : c(of), device(on) {
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(sample_input(*c.op, {c.inputs, c.attributes}, i, false, 11));
  }
}

void expect_close(const Tensor& got, const Tensor& want, const Codec* codec) {
  double slack = kRoundings * std::ldexp(1.0, -24) * largest_magnitude(want);
  auto stored = [&](double x) { return codec ? quantize(x, codec->cast()) : x; };
  int64_t wrong = 0;
  for (int64_t i = 0; i < want.count(); ++i) {
    double lowest = stored(want[i] - slack), highest = stored(want[i] + slack);
    if (lowest <= got[i] && got[i] <= highest) continue;
    if (wrong++ == 0) {
      ADD_FAILURE() << "element " << i << ": got " << got[i] << ", expected " << want[i] << ", in ["
                    << lowest << ", " << highest << "], off by "
                    << std::fabs(got[i] - want[i]) / slack * kRoundings << " roundings";
    }
  }
  EXPECT_EQ(wrong, 0) << "elements of " << want.count();
}

std::vector<Tensor> reference(const ConformanceCase& c, const KernelCall& call) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : call.inputs()) pointers.push_back(&input);
  std::vector<Tensor> outputs;
  for (size_t o = 0; o < call.output_count(); ++o) {
    outputs.emplace_back(call.output(o).shape);
  }
  c.op->evaluate({pointers, outputs, c.attributes, KernelCall::kStep});
  for (size_t o = 0; o < outputs.size(); ++o) {
    for (double& y : outputs[o].data) y *= static_cast<double>(call.factor(o));
  }
  return outputs;
}

void expect_reference(const Sample& sample, const Storage& storage) {
  KernelCall call = sample.call(storage);
  std::vector<Tensor> want = reference(sample.c, call);
  std::vector<std::vector<std::byte>> got = call.run();
  for (size_t o = 0; o < want.size(); ++o) {
    SCOPED_TRACE(fmt::format("{}, output {}", storage.name, o));
    const Codec* rounding = call.has_scale(o) ? nullptr : call.output(o).codec;
    expect_close(decoded(call.output(o), got[o]), want[o], rounding);
  }
}

void expect_same_on_threads(const Sample& sample, const Storage& storage) {
  if (sums_depend_on_threads(*sample.c.op)) return;
  KernelCall call = sample.call(storage);
  set_thread_count(1);
  std::vector<std::vector<std::byte>> alone = call.run();
  set_thread_count(2);
  EXPECT_EQ(alone, call.run()) << storage.name;
  set_thread_count(0);
}

void expect_same_in_place(const Sample& sample, const Storage& storage) {
  KernelCall call = sample.call(storage);
  for (const KernelCall::Places& at : in_place_ways(call)) {
    std::string way = storage.name;
    for (size_t o = 0; o < at.size(); ++o) {
      if (at[o]) way += fmt::format(", output {} in input {}", o, *at[o]);
    }
    EXPECT_EQ(call.run(), call.run(at)) << way;
  }
}

void expect_own_random_bits(const Sample& sample) {
  if (sample.c.op->rounds_itself) return;
  std::vector<std::vector<std::byte>> exact = sample.call({"fp32", {"fp32"}, {"fp32"}}).run();
  KernelCall call = sample.call({"stochastic", {"fp32"}, {"e5m2"}, false, Rounding::stochastic});
  std::vector<std::vector<std::byte>> got = call.run();
  for (size_t o = 0; o < got.size(); ++o) {
    if (call.output(o).kind == Kind::index) continue;
    std::vector<std::byte> want(got[o].size());
    call.output(o).codec->encode(reinterpret_cast<const float*>(exact[o].data()), want.data(),
                                 call.output(o).count(), KernelCall::random(o));
    EXPECT_TRUE(got[o] == want) << "output " << o;
  }
}

}  // namespace sigma1
