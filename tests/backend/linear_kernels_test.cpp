#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "sigma1/backend/cpu/gemm.h"
#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/ops/linear.h"

namespace sigma1::cpu {
namespace {

// A buffer, what it lies in, and the numbers that it holds after rounding to its format.
struct Operand {
  Operand(const std::string& format, Shape shape, std::string_view name)
      : codec(Cast{find_format(format).format}), exact(shape) {
    auto count = static_cast<size_t>(exact.count());
    std::vector<float> values(count);
    RandomStream stream(1, name);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(stream.normal(i));
    bytes.resize(count * static_cast<size_t>(codec.bytes()));
    codec.encode(values.data(), bytes.data(), exact.count());
    codec.decode(bytes.data(), values.data(), exact.count());
    exact.data.assign(values.begin(), values.end());
    is_fp32 = format == "fp32";
  }

  void set_scale(float s) {
    scale = s;
    has_scale = true;
    for (double& x : exact.data) x *= s;
  }

  Buffer buffer() {
    return {bytes.data(), is_fp32 ? nullptr : &codec, exact.shape, Kind::real,
            has_scale ? &scale : nullptr};
  }

  Codec codec;
  Tensor exact;
  std::vector<std::byte> bytes;
  bool is_fp32 = false, has_scale = false;
  float scale = 1;
};

const Kernel& kernel_of(const OpDef& op) {
  for (const Kernel& kernel : linear_kernels()) {
    if (kernel.op == &op) return kernel;
  }
  throw Bug("no kernel for {}", op.name);
}

// Runs the kernel in exactly the workspace that it asks for, with a guard behind it.
void launch(const OpDef& op, std::vector<Operand>& in, Operand& out, const Attributes& attributes,
            float factor) {
  std::vector<Buffer> inputs, outputs{out.buffer()};
  for (Operand& operand : in) inputs.push_back(operand.buffer());
  std::vector<RandomStream> random{RandomStream(3, "out")};
  Launch call{inputs, outputs, attributes, {&factor, 1}, random, {}};
  const Kernel& kernel = kernel_of(op);
  auto size = static_cast<size_t>(kernel.workspace(call));
  std::vector<std::byte> room(size + 128, std::byte{0x5A});
  void* aligned = room.data();
  size_t space = room.size();
  std::align(64, size + 64, aligned, space);
  call.workspace = {static_cast<std::byte*>(aligned), size};
  kernel.run(call);
  for (size_t i = size; i < size + 64; ++i) {
    ASSERT_EQ(call.workspace.data()[i], std::byte{0x5A}) << "wrote behind the workspace";
  }
}

// Against the op's own record in double: half a step of the output's format, and the roundings of
// k sums in fp32.
void check(const OpDef& op, std::vector<Operand> in, Operand out, const Attributes& attributes,
           int64_t k, float factor = 0.25f) {
  std::ranges::fill(out.bytes, std::byte{0x7F});
  launch(op, in, out, attributes, factor);
  std::vector<const Tensor*> inputs;
  std::vector<Tensor> sums(1, Tensor(out.exact.shape)), magnitudes = sums;
  for (Operand& operand : in) inputs.push_back(&operand.exact);
  op.evaluate({inputs, sums, attributes});
  for (Operand& operand : in) {
    for (double& x : operand.exact.data) x = std::fabs(x);
  }
  op.evaluate({inputs, magnitudes, attributes});

  std::vector<float> got(out.exact.data.size());
  out.codec.decode(out.bytes.data(), got.data(), out.exact.count());
  const FloatFormat& format = out.codec.cast().format;
  for (size_t i = 0; i < got.size(); ++i) {
    double expected = factor * sums[0].data[i];
    double in_fp32 = std::ldexp(static_cast<double>(k + 4), -24) * factor * magnitudes[0].data[i];
    double half_step = std::ldexp(std::fabs(expected) + in_fp32, -1 - format.mantissa_bits);
    half_step = std::max(half_step, format.min_subnormal() / 2);
    ASSERT_NEAR(got[i], expected, in_fp32 + (out.is_fp32 ? 0 : half_step)) << "element " << i;
  }
}

struct Formats {
  const char *x, *w, *y;
};

// Everything alike, and FP8 training as the paper has it: E4M3 forward, E5M2 gradients.
const Formats kFormats[] = {
    {"fp32", "fp32", "fp32"},         {"fp16", "fp16", "fp16"},
    {"bf16", "bf16", "bf16"},         {"fp8_e4m3", "fp8_e4m3", "fp16"},
    {"fp8_e5m2", "fp8_e4m3", "fp16"}, {"fp8_e4m3", "fp8_e5m2", "fp32"},
    {"bf16", "fp8_e4m3", "fp8_e4m3"}, {"fp32", "fp8_e5m2", "bf16"},
    {"fp16", "fp32", "fp8_e5m2"},     {"bf16", "fp32", "fp32"},
};

std::string text(const Formats& f) { return std::string(f.x) + " · " + f.w + " → " + f.y; }

// With the processor's bfloat16 products, where it has them, and without.
class LinearKernels : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) {
      if (!has_bf16_gemm()) GTEST_SKIP() << "no bfloat16 products here";
    } else {
      force_instruction_set(InstructionSet::baseline);
      ASSERT_FALSE(has_bf16_gemm());
    }
  }
  void TearDown() override { force_instruction_set(best_); }

 private:
  InstructionSet best_ = instruction_set();
};

INSTANTIATE_TEST_SUITE_P(Bfloat16, LinearKernels, testing::Bool(),
                         [](const auto& tested) { return tested.param ? "with" : "without"; });

TEST_P(LinearKernels, MatmulInEveryFormatAndTransposition) {
  for (const Formats& f : kFormats) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      bool left = transposes & 1, right = transposes & 2;
      SCOPED_TRACE(text(f) + (left ? " left" : "") + (right ? " right" : ""));
      Attributes attributes{{"transpose_left", left}, {"transpose_right", right}};
      Shape x = left ? Shape{45, 37} : Shape{37, 45}, w = right ? Shape{51, 45} : Shape{45, 51};
      check(matmul_op, {{f.x, x, "x"}, {f.w, w, "w"}}, {f.y, {37, 51}, "y"}, attributes, 45);
      Shape xs{2, 3}, ws{2, 3};
      xs.insert(xs.end(), x.begin(), x.end());
      check(matmul_op, {{f.x, xs, "x"}, {f.w, w, "w"}}, {f.y, {2, 3, 37, 51}, "y"}, attributes, 45);
      ws.insert(ws.end(), w.begin(), w.end());
      check(matmul_op, {{f.x, xs, "x"}, {f.w, ws, "w"}}, {f.y, {2, 3, 37, 51}, "y"}, attributes,
            45);
    }
  }
}

// More rows and columns than a tile and a thread's share, so that every cut is crossed.
TEST_P(LinearKernels, LinearAddsTheBiasBeforeTheFactor) {
  for (const Formats& f : kFormats) {
    SCOPED_TRACE(text(f));
    check(linear_op, {{f.x, {2, 70, 33}, "x"}, {f.w, {33, 451}, "w"}, {f.w, {451}, "c"}},
          {f.y, {2, 70, 451}, "y"}, {}, 33, 0.375f);
    check(linear_op, {{f.x, {33}, "x"}, {f.w, {33, 3}, "w"}, {f.x, {3}, "c"}}, {f.y, {3}, "y"}, {},
          33);
  }
}

TEST_P(LinearKernels, RunTimeScalesMultiply) {
  Operand x("fp8_e4m3", {37, 45}, "x"), w("fp8_e5m2", {45, 51}, "w"), c("fp8_e4m3", {51}, "c");
  x.set_scale(3);
  w.set_scale(0.3f);
  Attributes plain{{"transpose_left", false}, {"transpose_right", false}};
  check(matmul_op, {x, w}, {"fp32", {37, 51}, "y"}, plain, 45);
  c.set_scale(7);
  check(linear_op, {x, w, c}, {"fp16", {37, 51}, "y"}, {}, 45);
}

TEST_P(LinearKernels, WorkspaceHoldsOnlyWhatIsConverted) {
  auto workspace_of = [](const Formats& f) {
    Operand x(f.x, {64, 32}, "x"), w(f.w, {32, 16}, "w"), y(f.y, {64, 16}, "y");
    Buffer inputs[] = {x.buffer(), w.buffer()}, outputs[] = {y.buffer()};
    Attributes attributes{{"transpose_left", false}, {"transpose_right", false}};
    return kernel_of(matmul_op).workspace({inputs, outputs, attributes, {}, {}, {}});
  };
  EXPECT_EQ(workspace_of({"fp32", "fp32", "fp32"}), 0);
  EXPECT_EQ(workspace_of({"fp32", "fp16", "fp32"}), 32 * 16 * 4);
  EXPECT_EQ(workspace_of({"fp16", "fp32", "fp16"}), 64 * 32 * 4 + 64 * 16 * 4);
  int64_t width = GetParam() ? 2 : 4;
  EXPECT_EQ(workspace_of({"fp8_e4m3", "fp8_e5m2", "fp32"}), (64 * 32 + 32 * 16) * width);
  EXPECT_EQ(workspace_of({"bf16", "bf16", "fp32"}), GetParam() ? 0 : (64 * 32 + 32 * 16) * 4);
}

}  // namespace
}  // namespace sigma1::cpu
