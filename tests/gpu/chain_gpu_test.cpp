// Chains of pointwise ops on the GPU, with results in one orientation and in both: bit by bit what
// the CPU stores, where every number on the way is exact.
#include <gtest/gtest.h>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "tests/gpu/chain_case.h"

namespace sigma1 {
namespace {

class CudaChain : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

using Bytes = std::vector<std::byte>;

Bytes turned(const Bytes& codes, int64_t width) {
  auto columns = static_cast<size_t>(width);
  size_t rows = codes.size() / columns;
  Bytes result(codes.size());
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < columns; ++j) result[j * rows + i] = codes[i * columns + j];
  }
  return result;
}

// The first tensor is [rows, width]; the others are, or are rows of it, or single numbers.
std::vector<Shape> shapes_of(const ChainSpec& spec, int64_t rows, int64_t width,
                             const std::vector<Shape>& others) {
  std::vector<Shape> shapes{{rows, width}};
  for (size_t i = 1; i < spec.formats.size(); ++i) {
    shapes.push_back(i <= others.size() ? others[i - 1] : shapes[0]);
  }
  return shapes;
}

void expect_cpu(const ChainSpec& spec, int64_t rows, int64_t width, bool both_ways,
                const std::vector<Shape>& others = {}) {
  SCOPED_TRACE(fmt::format("{} of [{}, {}]", spec.name, rows, width));
  std::vector<Shape> shapes = shapes_of(spec, rows, width, others);
  std::vector<float> all = wide_numbers(rows * width + 64, 977);
  std::vector<std::span<const float>> numbers;
  for (size_t i = 0; i < shapes.size(); ++i) numbers.push_back(std::span(all).subspan(7 * i));
  PlacedChain cpu(spec, shapes, numbers, cpu_device(), false);
  PlacedChain gpu(spec, shapes, numbers, cuda_device(), both_ways);
  cpu.run();
  gpu.run();
  Bytes codes = gpu.codes();
  EXPECT_TRUE(codes == cpu.codes());
  EXPECT_TRUE(!both_ways || gpu.turned_codes() == turned(codes, width));
}

ChainSpec cast_spec(const char* from, const char* to) {
  return {fmt::format("cast of {} to {}", from, to), {{&identity_op, {tensor(0)}}}, {from}, to};
}
// Each op uses the result before it.
ChainSpec linear_spec(const char* to) {
  return {"linear chain",
          {{&mul_op, {tensor(0), tensor(1)}},
           {&relu_grad_op, {tensor(0), result_of(0)}},
           {&mul_op, {result_of(1), result_of(1)}},
           {&add_op, {result_of(2), tensor(2)}},
           {&identity_op, {result_of(3)}}},
          {"fp16", "bf16", "fp32"},
          to};
}
// Results are used later, and twice.
ChainSpec general_spec(const char* to) {
  return {"general chain",
          {{&relu_op, {tensor(0)}},
           {&mul_op, {tensor(0), tensor(1)}},
           {&add_op, {result_of(0), result_of(1)}},
           {&mul_op, {result_of(2), result_of(0)}},
           {&identity_op, {result_of(3)}}},
          {"e4m3", "fp16"},
          to};
}

const std::pair<int64_t, int64_t> kShapes[] = {{16, 16},   {48, 80},   {4112, 80},  {80, 4112},
                                               {16, 3072}, {48, 3072}, {1424, 3072}};

TEST_F(CudaChain, CastsInBothOrientations) {
  for (auto [rows, width] : kShapes) {
    for (const char* to : {"e4m3", "e5m2"}) {
      for (const char* from : {"fp16", "bf16", "fp32", "e4m3"}) {
        expect_cpu(cast_spec(from, to), rows, width, true);
      }
    }
  }
}

TEST_F(CudaChain, RunsOpsInBothOrientations) {
  for (auto [rows, width] : kShapes) {
    expect_cpu(linear_spec("e5m2"), rows, width, true);
    expect_cpu(linear_spec("e4m3"), rows, width, true, {{width}, {rows, width}});
    expect_cpu(linear_spec("e5m2"), rows, width, true, {{rows, width}, {1}});
    expect_cpu(general_spec("e4m3"), rows, width, true);
    expect_cpu(general_spec("e5m2"), rows, width, true, {{width}});
  }
}

// The last sizes are wide, and end within a block or in no whole group.
TEST_F(CudaChain, RunsOpsInOneOrientation) {
  for (auto [rows, width] :
       {std::pair<int64_t, int64_t>{7, 5}, {48, 80}, {1424, 3072}, {65537, 68}, {2051, 2047}}) {
    for (const char* to : {"fp32", "fp16", "bf16", "e4m3"}) {
      expect_cpu(cast_spec("fp16", to), rows, width, false);
      expect_cpu(linear_spec(to), rows, width, false, {{width}, {rows, width}});
      expect_cpu(general_spec(to), rows, width, false);
    }
  }
}

TEST_F(CudaChain, RoundsByTheSameRandomBits) {
  for (auto [rows, width] : kShapes) {
    for (ChainSpec spec : {cast_spec("fp16", "e5m2"), linear_spec("e4m3"), general_spec("e5m2")}) {
      spec.rounding = Rounding::stochastic;
      expect_cpu(spec, rows, width, true);
    }
  }
}

// The same numbers are dropped wherever the groups lie.
TEST_F(CudaChain, DropsTheSameInBothOrientations) {
  const Attributes half{{"p", 0.5}, {"seed", int64_t{5}}, {"stream", std::string("kept")}};
  ChainSpec spec{
      "dropout", {{&dropout_op, {tensor(0)}, half}, {&relu_op, {result_of(0)}}}, {"fp16"}, "e4m3"};
  for (auto [rows, width] : kShapes) {
    expect_cpu(spec, rows, width, true);
    expect_cpu(spec, rows, width, false);
  }
}

// Of numbers before they are rounded to 8 bits, and of what the chain reads; the result is the same
// as without the sums.
TEST_F(CudaChain, SumsColumnsBesideIt) {
  ChainSpec product{"product",
                    {{&mul_op, {tensor(0), tensor(1)}}, {&identity_op, {result_of(0)}}},
                    {"fp16", "fp16"},
                    "e5m2"};
  const Cast half = codec_of("fp16")->cast();
  for (auto [rows, width] : {std::pair{4240, 16}, {4240, 1040}, {8192, 192}}) {
    std::vector<float> numbers = wide_numbers(2 * rows * width, 5);
    std::vector<std::span<const float>> both{numbers, std::span(numbers).subspan(3)};
    for (bool of_input : {false, true}) {
      SCOPED_TRACE(fmt::format("{} x {}, of {}", rows, width, of_input ? "input" : "result"));
      ChainSpec spec = of_input ? cast_spec("fp16", "e5m2") : product;
      std::vector<Shape> shapes(spec.formats.size(), {rows, width});
      PlacedChain plain(spec, shapes, both, cuda_device(), true);
      spec.summed = of_input ? tensor(0) : result_of(0);
      PlacedChain chain(spec, shapes, both, cuda_device(), true);
      plain.run();
      chain.run();
      EXPECT_TRUE(chain.codes() == plain.codes() && chain.turned_codes() == plain.turned_codes());
      std::vector<float> sums = chain.sums();
      for (int64_t column = 0; column < width; ++column) {
        double expected = 0, size = 0;
        for (int64_t row = 0; row < rows; ++row) {
          auto at = static_cast<size_t>(row * width + column);
          double x = quantize(both[0][at], half), y = quantize(both[1][at], half);
          double term = of_input ? x / 2 : x * y / 4;  // by the factors of sum and product
          expected += term;
          size += std::fabs(term);
        }
        ASSERT_NEAR(sums[static_cast<size_t>(column)], expected, 1e-6 * size) << column;
      }
      chain.run();
      EXPECT_EQ(chain.sums(), sums);
    }
  }
}

// Large tensors have kernels that know op and formats, small ones are interpreted.
TEST_F(CudaChain, GivesTheSameBitsByAKernelOfItsOwn) {
  constexpr int64_t kRows = 1024, kWidth = 1040;
  std::vector<float> numbers = wide_numbers(2 * kRows * kWidth, 11);
  for (float& each : numbers) each *= 0x1p-11f;  // where activations bend
  auto halves = [&](int64_t row) {
    auto from = static_cast<size_t>(row * kWidth);
    return std::vector<std::span<const float>>{std::span(numbers).subspan(from),
                                               std::span(numbers).subspan(from + kRows * kWidth)};
  };
  for (const OpDef* op : {&relu_op, &gelu_op, &gelu_tanh_op, &relu_grad_op, &gelu_grad_op,
                          &gelu_tanh_grad_op, &identity_op}) {
    bool is_binary = op->name.ends_with("_grad");
    for (const char* in : {"fp16", "bf16"}) {
      for (const char* out : {in, "e4m3", "e5m2"}) {
        SCOPED_TRACE(fmt::format("{} of {} to {}", op->name, in, out));
        ChainSpec spec{"", {{op, {tensor(0)}}}, {in}, out};
        if (is_binary) spec = {"", {{op, {tensor(0), tensor(1)}}}, {in, in}, out};
        auto run = [&](int64_t first, int64_t rows, bool both_ways) {
          std::vector<std::span<const float>> from = halves(first);
          from.resize(spec.formats.size());
          std::vector<Shape> shapes(spec.formats.size(), {rows, kWidth});
          PlacedChain chain(spec, shapes, from, cuda_device(), both_ways);
          chain.run();
          Bytes codes = chain.codes();
          EXPECT_TRUE(!both_ways || chain.turned_codes() == turned(codes, kWidth));
          return codes;
        };
        Bytes known = run(0, kRows, out != in), small = run(0, kRows / 2, false);
        for (std::byte each : run(kRows / 2, kRows / 2, false)) small.push_back(each);
        EXPECT_TRUE(known == small);
      }
    }
  }
}

TEST_F(CudaChain, IsTurnedAfterwards) {
  for (auto [rows, width] : kShapes) {
    std::vector<float> numbers = wide_numbers(rows * width, 3);
    PlacedChain chain(cast_spec("fp32", "e4m3"), {{rows, width}}, {numbers}, cuda_device(), true);
    chain.run();
    Bytes none(chain.codes().size());
    cuda_device().write(chain.out().turned, none.data(), static_cast<int64_t>(none.size()));
    cuda_device().turn(chain.out());
    EXPECT_TRUE(chain.turned_codes() == turned(chain.codes(), width)) << rows << " x " << width;
  }
}

// Numbers that fp32 holds apart: x·Φ(x) and its derivative, down to where they are 0, and what is
// not finite.
TEST_F(CudaChain, FindsGeluInItsTails) {
  constexpr int64_t kCount = 24 * 1024;
  std::vector<float> x(kCount), ones(kCount, 1);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(static_cast<double>(i) / 1024) - 12;
  auto run = [](const ChainSpec& spec, const std::vector<std::span<const float>>& numbers) {
    auto count = static_cast<int64_t>(numbers[0].size());
    std::vector<Shape> shapes(numbers.size(), Shape{count});
    PlacedChain gpu(spec, shapes, numbers, cuda_device(), false);
    gpu.run();
    Bytes codes = gpu.codes();
    std::vector<float> result(numbers[0].size());
    std::memcpy(result.data(), codes.data(), codes.size());
    return result;
  };
  ChainSpec value{"gelu", {{&gelu_op, {tensor(0)}}}, {"fp32"}, "fp32"};
  ChainSpec grad{"gelu_grad", {{&gelu_grad_op, {tensor(0), tensor(1)}}}, {"fp32", "fp32"}, "fp32"};
  std::vector<float> values = run(value, {x}), slopes = run(grad, {x, ones});
  double worst_value = 0, worst_slope = 0, off_slope = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double at = x[i], cdf = std::erfc(-at / std::sqrt(2.0)) / 2;
    double slope = cdf + at * std::exp(-at * at / 2) / std::sqrt(2 * M_PI);
    double error = std::fabs(2 * static_cast<double>(slopes[i]) - slope);
    off_slope = std::max(off_slope, error);
    // Near −0.75 the slope is 0.
    if (std::fabs(at + 0.75) > 0.25) worst_slope = std::max(worst_slope, error / std::fabs(slope));
    if (at == 0) continue;
    error = std::fabs(2 * static_cast<double>(values[i]) / (at * cdf) - 1);
    worst_value = std::max(worst_value, error);
  }
  EXPECT_LE(worst_value, 1e-5);
  EXPECT_LE(worst_slope, 1e-5);
  EXPECT_LE(off_slope, 5e-7);
  std::vector<float> odd{INFINITY, -INFINITY, NAN, 0};
  std::vector<float> of_odd = run(value, {odd}),
                     slope_of_odd = run(grad, {odd, std::span(ones).first(4)});
  EXPECT_EQ(of_odd[0], INFINITY);
  EXPECT_EQ(of_odd[1], 0);
  EXPECT_TRUE(std::isnan(of_odd[2]) && std::isnan(slope_of_odd[2]));
  EXPECT_EQ(slope_of_odd[0], 0.5f);
  EXPECT_EQ(slope_of_odd[1], 0);
}

}  // namespace
}  // namespace sigma1
