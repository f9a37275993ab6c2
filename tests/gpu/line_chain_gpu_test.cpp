// Line chains against the single kernels of their steps, on the GPU and on the CPU, and what of
// large and small models becomes which kind of chain.
#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/grouping.cuh"
#include "sigma1/backend/cuda/line_chain.cuh"
#include "sigma1/base/error.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "tests/gpu/line_chain_case.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

class CudaLineChain : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

// Rows of one warp and of several, full and with idle lanes; as many as line chains are for, and
// fewer where that takes long to check.
constexpr int64_t kWidths[] = {768, 1024, 1600, 3072, 64};
int64_t rows_for(int64_t width) { return width == 768 ? 4225 : 277; }

TEST_F(CudaLineChain, RunsAsItsSteps) {
  for (const char* format : {"fp16", "bf16"}) {
    for (int64_t width : kWidths) {
      for (LineChainKind kind : line_chain_kinds()) {
        SCOPED_TRACE(fmt::format("{}, width {}, {}", kind.name, width, format));
        LineChainSizes sizes{.rows = rows_for(width), .width = width, .format = format};
        expect_single_kernels(kind.make(cuda_device(), sizes), width == 64);
      }
    }
  }
}

// A block of 32 rows of which 16 are there.
TEST_F(CudaLineChain, WritesBothOrientations) {
  for (int64_t width : kWidths) {
    for (LineChainKind kind : line_chain_kinds()) {
      SCOPED_TRACE(fmt::format("{}, width {}", kind.name, width));
      LineChainSizes sizes{.rows = rows_for(width) / 16 * 16, .width = width, .casts = true};
      expect_single_kernels(kind.make(cuda_device(), sizes), width == 1024);
    }
  }
}

TEST_F(CudaLineChain, ServesLargeModels) {
  LineChainSizes sizes{.rows = 32768, .width = 768, .casts = true};
  for (LineChainKind kind : line_chain_kinds()) {
    SCOPED_TRACE(kind.name);
    RowChainCase chain = kind.make(cuda_device(), sizes);
    std::vector<bool> all(chain.step_count(), true);
    expect_steps(chain, run_lines(chain, all), cuda_device());
  }
}

// Rows of fp32, vectors of another type than rows, norms without vectors, rows that repeat, ops
// that are no sums.
TEST_F(CudaLineChain, RunsNormsAndPointwiseOps) {
  for (int64_t width : {8, 200, 1000, 4096}) {
    SCOPED_TRACE(fmt::format("width {}", width));
    RowChainCase plain(cuda_device(), 60, "fp32");
    size_t x =
        plain.apply(weighted_add_op, {plain.random({3, 20, width}), plain.random({20, width})},
                    0.75f, {{"weights", std::vector<double>{0.6, 0.8}}});
    x = plain.apply(rms_norm_op, {x}, 0.75f);
    x = plain.apply(mul_op, {x, plain.random({3, 20, width})}, 1.25f, {}, "bf16");
    plain.apply(layer_norm_op, {x}, 0.75f, {}, "fp16");
    expect_single_kernels(plain, true);

    RowChainCase other(cuda_device(), 37, "bf16");
    size_t y = other.apply(relu_op, {other.rows(width)}, 1.375f);
    y = other.apply(relu_grad_op, {other.rows(width), y}, 0.75f);
    y = other.apply(rms_norm_grad_op, {other.rows(width), y}, 0.75f,
                    {{"eps", 1e-5}, {"has_bias", false}});
    y = other.apply(layer_norm_grad_op, {other.rows(width), other.random({width}, "fp32"), y},
                    0.75f, {{"eps", 1e-5}, {"has_bias", true}});
    other.apply(scale_op, {y}, 0.75f, {{"factor", 3.5}}, "fp32");
    expect_single_kernels(other, true);
  }
}

TEST_F(CudaLineChain, TakesWhatItsKernelCanDo) {
  for (LineChainKind kind : line_chain_kinds()) {
    EXPECT_TRUE(fits_lines(kind.make(cuda_device(), {.rows = 64, .width = 64, .casts = true})));
  }
  for (LineChainKind kind : line_chain_kinds()) {
    bool has_form = kind.name != std::string("last backward");
    EXPECT_EQ(fits_lines(kind.make(cuda_device(), {.rows = 64, .width = 768, .casts = true})),
              has_form)
        << kind.name;
  }
  RowChainCase apart(cuda_device(), 64, "fp16");
  apart.apply(rms_norm_op, {apart.rows(64)});
  apart.apply(rms_norm_op, {apart.rows(64)});
  EXPECT_FALSE(fits_lines(apart)) << "steps that do not follow each other";
  EXPECT_THROW(run_lines(apart, {true, true}), Bug);
  RowChainCase twice(cuda_device(), 64, "fp16");
  size_t first = twice.apply(relu_op, {twice.rows(64)});
  twice.apply(add_op, {first, twice.apply(rms_norm_op, {first})});
  EXPECT_FALSE(fits_lines(twice)) << "an older result";
  RowChainCase mixed(cuda_device(), 64, "fp16");
  mixed.apply(add_op, {mixed.rows(64), mixed.rows(64, "bf16")});
  EXPECT_FALSE(fits_lines(mixed)) << "rows of two types";

  auto is_local = [](RowChainCase& c) {
    auto prepared = c.prepare(std::vector<bool>(c.step_count(), false));
    return cuda::is_line_local(*prepared->steps.back().op, prepared->steps.back().launch);
  };
  RowChainCase product(cuda_device(), 64, "fp16"), narrow(cuda_device(), 64, "fp16");
  product.apply(matmul_op, {product.rows(64), product.random({64, 64})});
  EXPECT_FALSE(is_local(product));
  narrow.apply(relu_op, {narrow.rows(36)});
  EXPECT_FALSE(is_local(narrow));
  RowChainCase wide(cuda_device(), 64, "fp16"), slow(cuda_device(), 64, "fp16");
  wide.apply(relu_op, {wide.rows(4104)});
  EXPECT_FALSE(is_local(wide));
  slow.apply(gelu_op, {slow.rows(64)});
  EXPECT_FALSE(is_local(slow));
}

// A training step with as many rows, against the CPU.
TEST_F(CudaLineChain, GivesTheGradientsOfTheCpu) {
  for (const char* model : {"gpt", "char_lm"}) {
    TrainingCase many{model,
                      model,
                      {.batch = 17,
                       .time = 256,
                       .width = 64,
                       .hidden = 128,
                       .depth = 2,
                       .heads = 2,
                       .vocabulary = 48,
                       .norm = "post"}};
    auto graph = lowered(many, Precision::named("fp32"));
    Bindings bindings = training_bindings(*graph);
    ProgramRun cpu(graph, bindings), gpu(graph, bindings, {}, cuda_device());
    cpu.program.run(0);
    gpu.program.run(0);
    for (const auto& [name, value] : graph->outputs()) {
      double error =
          relative_error(tensor_of(gpu.program.output(name)), tensor_of(cpu.program.output(name)));
      EXPECT_LE(error, 1e-4) << model << ": " << name;
    }
  }
}

// What follows needs no GPU.
std::vector<std::vector<std::string>> rows_groups(const Graph& graph) {
  std::vector<std::vector<std::string>> found;
  for (const NodeGroup& group : group_nodes(graph, cuda::grouping(graph, {}))) {
    if (group.kind != NodeGroup::Kind::rows) continue;
    auto& names = found.emplace_back();
    for (int node : group.nodes) names.emplace_back(graph.node(node).op->name);
  }
  return found;
}

std::shared_ptr<Graph> gpt_graph(int64_t batch, const char* precision) {
  return lowered({"gpt",
                  "gpt",
                  {.batch = batch,
                   .time = 1024,
                   .width = 768,
                   .hidden = 3072,
                   .depth = 2,
                   .heads = 12,
                   .vocabulary = 512}},
                 Precision::named(precision));
}

using Groups = std::vector<std::vector<std::string>>;

TEST(CudaLineGroups, LeaveProductsOfLargeModelsOut) {
  Groups fp16 = rows_groups(*gpt_graph(32, "fp16")), fp8 = rows_groups(*gpt_graph(32, "fp8"));
  std::vector<std::string> forward{"weighted_add", "layer_norm"};
  std::vector<std::string> backward{"layer_norm_grad", "weighted_add", "layer_norm_weight_grad",
                                    "sum"};
  // The embedding's, and two of each layer; backwards the model's end and the embedding are others.
  EXPECT_EQ(std::ranges::count(fp16, forward), 5);
  EXPECT_EQ(std::ranges::count(fp16, backward), 3);
  EXPECT_EQ(fp16.size(), 10u);
  forward.emplace_back("identity");
  backward.insert(backward.begin() + 2, "identity");
  EXPECT_EQ(std::ranges::count(fp8, forward), 4);
  EXPECT_EQ(std::ranges::count(fp8, backward), 3);
}

TEST(CudaLineGroups, LeaveSmallModelsAsTheyWere) {
  Groups few = rows_groups(*gpt_graph(4, "fp16"));
  bool has_product = std::ranges::any_of(few, [](const std::vector<std::string>& group) {
    return std::ranges::find(group, "linear") != group.end();
  });
  EXPECT_TRUE(has_product);
}

}  // namespace
}  // namespace sigma1
