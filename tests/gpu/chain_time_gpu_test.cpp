// How near pointwise chains come to the speed of their bytes, at the sizes of GPT-2. Times are
// printed.
#include <gtest/gtest.h>

#include <cstdio>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "tests/gpu/chain_case.h"
#include "tests/gpu/timed_call.h"

namespace sigma1 {
namespace {

void print(const std::string& name, const Shape& shape, double bytes, double time) {
  std::printf("%-34s %-14s %8.1f us %6.0f GB/s\n", name.c_str(), to_string(shape).c_str(), time,
              1e-3 * bytes / time);
}

// Where `turns`, the result in both orientations, and the second of them alone.
void show(const ChainSpec& spec, const Shape& shape, bool turns) {
  static const std::vector<float> numbers = wide_numbers(int64_t{32768} * 3072, 1);
  std::vector<Shape> shapes(spec.formats.size(), shape);
  std::vector<std::span<const float>> all(spec.formats.size(), numbers);
  PlacedChain chain(spec, shapes, all, cuda_device(), turns);
  double time = microseconds_of(10, [&] { chain.run(); });
  print(spec.name + (turns ? ", both ways" : ""), shape, static_cast<double>(chain.bytes()), time);
  if (!turns || spec.ops[0].op != &identity_op) return;
  time = microseconds_of(10, [&] { cuda_device().turn(chain.out()); });
  print("turn", shape, 2 * static_cast<double>(chain.out().count()), time);
}

TEST(CudaChainTime, IsShown) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const ChainSpec gelu{"gelu", {{&gelu_op, {tensor(0)}}}, {"fp16"}, "fp16"};
  const ChainSpec gelu_grad{
      "gelu_grad", {{&gelu_grad_op, {tensor(0), tensor(1)}}}, {"fp16", "fp16"}, "fp16"};
  const ChainSpec cast{"cast to e4m3", {{&identity_op, {tensor(0)}}}, {"fp16"}, "e4m3"};
  auto with_cast = [](ChainSpec spec, const char* format) {
    spec.ops.push_back({&identity_op, {result_of(0)}});
    spec.name += fmt::format(", cast to {}", format);
    spec.out = format;
    return spec;
  };
  const ChainSpec general{"gelu(x) gelu_grad(x, y), cast",
                          {{&gelu_op, {tensor(0)}},
                           {&gelu_grad_op, {tensor(0), tensor(1)}},
                           {&mul_op, {result_of(0), result_of(1)}},
                           {&identity_op, {result_of(2)}}},
                          {"fp16", "fp16"},
                          "e4m3"};
  constexpr int64_t kRows = 32768;
  show(gelu, {kRows, 3072}, false);
  show(gelu_grad, {kRows, 3072}, false);
  for (int64_t width : {768, 2304, 3072}) show(cast, {kRows, width}, true);
  show(with_cast(gelu, "e4m3"), {kRows, 3072}, false);
  show(with_cast(gelu, "e4m3"), {kRows, 3072}, true);
  show(with_cast(gelu_grad, "e5m2"), {kRows, 3072}, true);
  ChainSpec with_sum = with_cast(gelu_grad, "e5m2");
  with_sum.summed = result_of(0);
  with_sum.name += ", summed";
  show(with_sum, {kRows, 3072}, true);
  show(general, {kRows, 3072}, true);
  for (int64_t width : {768, 2304, 3072}) show(cast, {768, width}, true);
}

}  // namespace
}  // namespace sigma1
