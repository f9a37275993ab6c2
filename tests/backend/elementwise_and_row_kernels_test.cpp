// Kernels of pointwise, norm, softmax and update on tensors that many threads share: against their
// records, in place, in fp16, and the same bits for any number of threads.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/base/error.h"
#include "sigma1/base/parallel.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/softmax.h"
#include "sigma1/ops/update.h"
#include "tests/backend/run_kernel.h"

namespace sigma1::cpu {
namespace {

std::vector<Kernel> kernels() {
  std::vector<Kernel> all;
  for (auto family : {pointwise_kernels, norm_kernels, softmax_kernels, update_kernels}) {
    for (const Kernel& kernel : family()) all.push_back(kernel);
  }
  return all;
}

// Odd sizes, so that no row and no tile begins where a vector does.
const Shape kWhole{3, 61, 133};
constexpr int64_t kColumns = 133;

std::vector<TensorType> repeated(const TensorType& type, size_t count) {
  return std::vector<TensorType>(count, type);
}

Attributes adam_attributes(bool decoupled, double max_trust_ratio) {
  return {{"beta1", 0.9},           {"beta2", 0.999},
          {"epsilon", 1e-6},        {"weight_decay", 0.1},
          {"decoupled", decoupled}, {"gradient_scale", 0.5},
          {"rate_scale", 0.75},     {"max_trust_ratio", max_trust_ratio}};
}

void push_updates(std::vector<KernelCase>& cases) {
  TensorType whole{kWhole}, scalar{Shape{}};
  for (bool nesterov : {false, true}) {
    std::vector<TensorType> inputs = repeated(whole, 3);
    inputs.push_back(scalar);
    cases.push_back({&sgd_step_op,
                     inputs,
                     {{"momentum", 0.9},
                      {"nesterov", nesterov},
                      {"weight_decay", 0.1},
                      {"gradient_scale", 0.5},
                      {"rate_scale", 0.75}}});
  }
  std::vector<TensorType> inputs = repeated(whole, 4);
  inputs.insert(inputs.end(), 2, scalar);
  cases.push_back({&adam_step_op, inputs, adam_attributes(true, 0)});
  cases.push_back({&adam_step_op, inputs, adam_attributes(false, 0)});
  cases.push_back({&lamb_step_op, inputs, adam_attributes(true, 0)});
  cases.push_back({&lamb_step_op, inputs, adam_attributes(true, 0.25)});
}

void push_rows(std::vector<KernelCase>& cases) {
  TensorType whole{kWhole}, column{{kColumns}}, scalar{Shape{}};
  TensorType targets{{3, 61}, Kind::index}, weights{{3, 61}};
  Attributes eps{{"eps", 1e-3}}, no_bias = eps, with_bias = eps;
  no_bias.set("has_bias", false);
  with_bias.set("has_bias", true);
  cases.push_back({&layer_norm_op, {whole}, eps});
  cases.push_back({&layer_norm_op, {whole, column, column}, eps});
  cases.push_back({&rms_norm_op, {whole, column}, eps});
  cases.push_back({&layer_norm_grad_op, {whole, whole}, eps});
  cases.push_back({&layer_norm_grad_op, {whole, column, whole}, eps});
  cases.push_back({&rms_norm_grad_op, {whole, column, whole}, eps});
  cases.push_back({&rms_norm_grad_op, {column, column, column}, eps});
  cases.push_back({&layer_norm_weight_grad_op, {whole, whole}, with_bias});
  cases.push_back({&layer_norm_weight_grad_op, {whole, whole}, no_bias});
  cases.push_back({&rms_norm_weight_grad_op, {whole, whole}, no_bias});
  cases.push_back({&rms_norm_weight_grad_op, {column, column}, no_bias});
  cases.push_back({&softmax_op, {whole}, {{"multiplier", 1.5}}});
  cases.push_back({&softmax_grad_op, {whole, whole}, {{"multiplier", 1.5}}});
  for (const char* reduction : {"sum", "mean"}) {
    Attributes attributes{{"reduction", std::string(reduction)}};
    for (const OpDef* op : {&softmax_xent_op, &softmax_xent_with_grad_op}) {
      cases.push_back({op, {whole, targets}, attributes});
      cases.push_back({op, {whole, targets, weights}, attributes});
    }
    cases.push_back({&softmax_xent_grad_op, {whole, targets, scalar}, attributes});
    cases.push_back({&softmax_xent_grad_op, {whole, targets, weights, scalar}, attributes});
    cases.push_back({&mse_op, {whole, whole}, attributes});
  }
}

std::vector<KernelCase> make_cases() {
  TensorType whole{kWhole}, rows{{61, kColumns}}, column{{kColumns}}, scalar{Shape{}};
  std::vector<KernelCase> cases;
  for (const OpDef* op : {&relu_op, &gelu_op, &gelu_tanh_op, &tanh_op, &sigmoid_op, &silu_op,
                          &softplus_op, &exp_op, &log_op, &identity_op}) {
    cases.push_back({op, {whole}, {}});
  }
  for (const OpDef* op :
       {&relu_grad_op, &gelu_grad_op, &gelu_tanh_grad_op, &tanh_grad_op, &sigmoid_grad_op,
        &silu_grad_op, &softplus_grad_op, &exp_grad_op, &log_grad_op}) {
    cases.push_back({op, {whole, whole}, {}});
  }
  for (const TensorType& second : {whole, rows, column, scalar}) {
    cases.push_back({&mul_op, {whole, second}, {}});
  }
  cases.push_back({&scale_op, {whole}, {{"factor", -0.3}}});
  cases.push_back(
      {&dropout_op, {whole}, {{"p", 0.3}, {"stream", std::string("drop")}, {"seed", int64_t{4}}}});
  for (size_t terms : {1, 2, 3, 5}) {
    cases.push_back({&add_op, repeated(whole, terms), {}});
    cases.push_back(
        {&weighted_add_op, repeated(whole, terms), {{"weights", std::vector<double>(terms, 0.7)}}});
  }
  cases.push_back({&add_op, {whole, column, rows, scalar}, {}});
  cases.push_back({&weighted_add_op, {whole, column}, {{"weights", std::vector{2.0, -3.0}}}});
  push_rows(cases);
  push_updates(cases);
  return cases;
}

const std::vector<KernelCase>& cases() {
  static const std::vector<KernelCase> all = make_cases();
  return all;
}

class RunKernelTest : public testing::TestWithParam<size_t> {
 protected:
  const KernelCase& c = cases()[GetParam()];
  const Kernel kernel = [this] {
    for (const Kernel& each : kernels()) {
      if (each.op == c.op) return each;
    }
    throw Bug("{} has no kernel", c.op->name);
  }();
  const KernelRunner runner{kernel, c};
};

using Results = std::vector<std::vector<float>>;

void expect_same_bits(const Results& a, const Results& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t o = 0; o < a.size(); ++o) {
    ASSERT_EQ(std::memcmp(a[o].data(), b[o].data(), a[o].size() * sizeof(float)), 0)
        << "output " << o;
  }
}

// `relative`: of a number; besides, four units of fp32 at the largest number of the tensor,
// for sums whose terms cancel.
void expect_near(const Results& got, const std::vector<Tensor>& want, double relative,
                 double absolute, double limit) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t o = 0; o < got.size(); ++o) {
    double largest = 0;
    for (double value : want[o].data) largest = std::max(largest, std::fabs(value));
    for (size_t i = 0; i < got[o].size(); ++i) {
      double value = std::clamp(want[o].data[i], -limit, limit);
      ASSERT_NEAR(got[o][i], value, relative * std::fabs(value) + absolute + 5e-7 * largest)
          << "output " << o << " element " << i;
    }
  }
}

TEST_P(RunKernelTest, GivesWhatTheRecordSays) {
  KernelRun how{.factors = std::vector<float>(runner.output_types().size(), 1.5f)};
  expect_near(runner.run(how), runner.expected(how), 2e-6, 0, FLT_MAX);
}

TEST_P(RunKernelTest, TakesAndGivesHalfPrecision) {
  Codec half({find_format("fp16").format});
  KernelRun how{.input_codecs = {10, &half}, .output_codecs = {10, &half}};
  if (c.op == &adam_step_op) how.input_codecs[3] = how.output_codecs[2] = nullptr;  // v
  // Half a unit in the last place, and half the smallest subnormal number.
  expect_near(runner.run(how), runner.expected(how), 0x1p-11 * 1.01, 0x1p-25, 65504);
}

TEST_P(RunKernelTest, DoesNotDependOnTheNumberOfThreads) {
  set_thread_count(1);
  Results alone = runner.run();
  set_thread_count(5);
  Results together = runner.run();
  set_thread_count(0);
  expect_same_bits(alone, together);
}

TEST_P(RunKernelTest, WorksInPlaceWhereItSaysSo) {
  if (!kernel.in_place) return;
  Codec half({find_format("fp16").format});
  for (const Codec* codec : std::initializer_list<const Codec*>{nullptr, &half}) {
    KernelRun how{.input_codecs = {10, codec}, .output_codecs = {10, codec}};
    Results apart = runner.run(how);
    for (size_t input = 0; input < c.inputs.size(); ++input) {
      for (size_t output = 0; output < runner.output_types().size(); ++output) {
        if (!kernel.in_place(input, output)) continue;
        if (c.inputs[input] != runner.output_types()[output]) continue;
        how.in_place_input = static_cast<int>(input);
        how.in_place_output = output;
        expect_same_bits(runner.run(how), apart);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RunKernelTest, testing::Range(size_t{0}, cases().size()),
                         [](const auto& param) {
                           return std::string(cases()[param.param].op->name) + "_" +
                                  std::to_string(param.param);
                         });

}  // namespace
}  // namespace sigma1::cpu
