// Sums over all rows that line chains find on their way, against the kernels that find them alone,
// and which of a model's they are.
#include <gtest/gtest.h>

#include <algorithm>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/grouping.cuh"
#include "sigma1/backend/cuda/line_chain.cuh"
#include "sigma1/ops/norm.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "tests/gpu/line_chain_case.h"
#include "tests/runtime/run_program.h"

namespace sigma1 {
namespace {

class CudaLineSums : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

// Teams of one warp, of two, of four and of eight, with idle lanes and without. Blocks of several
// rows to a team, some of them of one more, the last of them not full; and blocks of fewer rows
// than teams.
struct RowsAndWidth {
  int64_t rows, width;
};
constexpr RowsAndWidth kSizes[] = {{4225, 768}, {277, 600},   {1999, 776}, {4225, 1024},
                                   {277, 1024}, {1111, 1600}, {277, 3072}, {3, 520}};

TEST_F(CudaLineSums, AreThoseOfTheirOwnKernels) {
  for (const char* format : {"fp16", "bf16"}) {
    for (auto [rows, width] : kSizes) {
      for (LineChainKind kind : summed_line_chain_kinds()) {
        SCOPED_TRACE(fmt::format("{}, [{}, {}] {}", kind.name, rows, width, format));
        expect_single_kernels(kind.make(cuda_device(), {.rows = rows,
                                                        .width = width,
                                                        .format = format,
                                                        .weight_sums = true,
                                                        .column_sum = true}),
                              rows == 277);
      }
    }
  }
}

// Blocks of a turn of 32 rows, and the first of two; and half a turn.
constexpr RowsAndWidth kTurnedSizes[] = {{12816, 768}, {272, 528},  {8464, 1024},
                                         {4240, 1024}, {272, 1600}, {272, 4096}};

TEST_F(CudaLineSums, StandBesideResultsInBothOrientations) {
  for (const char* format : {"fp16", "bf16"}) {
    for (auto [rows, width] : kTurnedSizes) {
      for (LineChainKind kind : summed_line_chain_kinds()) {
        SCOPED_TRACE(fmt::format("{}, [{}, {}] {}", kind.name, rows, width, format));
        expect_single_kernels(kind.make(cuda_device(), {.rows = rows,
                                                        .width = width,
                                                        .format = format,
                                                        .casts = true,
                                                        .weight_sums = true,
                                                        .column_sum = true}));
      }
    }
  }
}

TEST_F(CudaLineSums, MayBeSomeOfThem) {
  for (bool weights : {false, true}) {
    for (LineChainKind kind : summed_line_chain_kinds()) {
      SCOPED_TRACE(fmt::format("{}, weights {}", kind.name, weights));
      expect_single_kernels(
          kind.make(cuda_device(),
                    {.rows = 4225, .width = 768, .weight_sums = weights, .column_sum = !weights}));
    }
  }
}

TEST_F(CudaLineSums, ServeLargeModels) {
  for (LineChainKind kind : summed_line_chain_kinds()) {
    SCOPED_TRACE(kind.name);
    RowChainCase chain = kind.make(
        cuda_device(),
        {.rows = 32768, .width = 1024, .casts = true, .weight_sums = true, .column_sum = true});
    std::vector<bool> all(chain.step_count(), true);
    LineBits bits = run_lines(chain, all);
    expect_steps(chain, bits, cuda_device());
    EXPECT_TRUE(bits == run_lines(chain, all)) << "again";
  }
}

const Attributes kLayerNorm = {{"eps", 1e-5}, {"has_bias", true}};
const Attributes kOverRows = {{"axes", std::vector<int64_t>{0}}};

// A gradient of a norm of [64, 768] and a residual sum behind it.
struct NormGrad {
  RowChainCase chain{cuda_device(), 64, "fp16"};
  size_t x = chain.rows(768), dy = chain.rows(768), other = chain.rows(768);
  size_t dx = chain.apply(layer_norm_grad_op, {x, chain.random({768}), dy}, 0.75f, kLayerNorm);
  size_t sum = chain.apply(add_op, {dx, other}, 0.75f);
};

// Not only the last step's results.
TEST_F(CudaLineSums, MayBeOfAnInnerResult) {
  NormGrad inner;
  inner.chain.apply(sum_op, {inner.dx}, 0.75f, kOverRows);
  inner.chain.apply(layer_norm_weight_grad_op, {inner.x, inner.dy}, 0.75f, kLayerNorm);
  expect_single_kernels(inner.chain, true);
}

TEST_F(CudaLineSums, AreLeftToTheirOwnKernelsWhereTheyDoNotFit) {
  auto fits = [](auto&& append) {
    NormGrad of;
    append(of);
    return fits_lines(of.chain);
  };
  EXPECT_TRUE(fits([](NormGrad& of) {
    of.chain.apply(layer_norm_weight_grad_op, {of.x, of.dy}, 1, kLayerNorm);
    of.chain.apply(sum_op, {of.sum}, 1, kOverRows);
  }));
  EXPECT_FALSE(fits([](NormGrad& of) {
    of.chain.apply(layer_norm_weight_grad_op, {of.other, of.dy}, 1, kLayerNorm);
  })) << "of other rows";
  EXPECT_FALSE(fits([](NormGrad& of) {
    of.chain.apply(layer_norm_weight_grad_op, {of.x, of.sum}, 1, kLayerNorm);
  })) << "of another gradient";
  EXPECT_FALSE(fits([](NormGrad& of) {
    of.chain.apply(rms_norm_weight_grad_op, {of.x, of.dy}, 1, kLayerNorm);
  })) << "of another norm";
  EXPECT_FALSE(fits([](NormGrad& of) {
    of.chain.apply(layer_norm_weight_grad_op, {of.x, of.dy}, 1,
                   {{"eps", 1e-3}, {"has_bias", true}});
  })) << "of another epsilon";
  EXPECT_FALSE(fits([](NormGrad& of) {
    of.chain.apply(sum_op, {of.dx}, 1, kOverRows);
    of.chain.apply(sum_op, {of.sum}, 1, kOverRows);
  })) << "of two results";
  EXPECT_FALSE(fits([](NormGrad& of) { of.chain.apply(sum_op, {of.other}, 1, kOverRows); }))
      << "of what is loaded";
  EXPECT_FALSE(fits([](NormGrad& of) {
    of.chain.apply(sum_op, {of.sum}, 1, {{"axes", std::vector<int64_t>{1}}});
  })) << "over columns";
  for (int64_t width : {64, 768}) {
    RowChainCase forward(cuda_device(), 64, "fp16");
    size_t y = forward.apply(layer_norm_op, {forward.rows(width)}, 1);
    forward.apply(sum_op, {y}, 1, kOverRows);
    EXPECT_FALSE(fits_lines(forward)) << "of a norm's results";
  }
}

std::shared_ptr<Graph> model_graph(const char* model, const char* precision) {
  return lowered({model,
                  model,
                  {.batch = 17,
                   .time = 256,
                   .width = 768,
                   .hidden = 1536,
                   .depth = 2,
                   .heads = 12,
                   .vocabulary = 512}},
                 Precision::named(precision));
}

// A step with as many rows in chains and without, and the same bits again.
TEST_F(CudaLineSums, GiveTheGradientsOfSingleKernels) {
  for (const char* model : {"bert", "gpt"}) {
    auto graph = model_graph(model, "fp16");
    Bindings bindings = training_bindings(*graph);
    Store one_by_one(cuda_device());
    Program single(graph, one_by_one, {}, 0, Fusion::none);
    write_sources(one_by_one, bindings);
    ProgramRun chains(graph, bindings, {}, cuda_device());
    single.run(0);
    chains.program.run(0);
    std::map<std::string, std::vector<float>> first;
    for (const auto& [name, value] : graph->outputs()) {
      first[name] = read_floats(chains.program.output(name));
      double error =
          relative_error(tensor_of(chains.program.output(name)), tensor_of(single.output(name)));
      EXPECT_LE(error, 1e-2) << model << ": " << name;
    }
    chains.program.run(0);
    for (const auto& [name, value] : graph->outputs()) {
      EXPECT_EQ(read_floats(chains.program.output(name)), first[name]) << model << ": " << name;
    }
  }
}

// What follows needs no GPU.
using OpNames = std::vector<std::string>;

std::vector<OpNames> chains_with_gradients(const Graph& graph) {
  std::vector<OpNames> found;
  for (const NodeGroup& group : group_nodes(graph, cuda::grouping(graph, {}))) {
    OpNames names;
    for (int node : group.nodes) names.emplace_back(graph.node(node).op->name);
    if (std::ranges::find(names, "layer_norm_grad") != names.end()) found.push_back(names);
  }
  return found;
}

// Norms stand behind residual sums: two of each layer, and the embedding's, whose result no bias
// gradient reads. The masked tokens' norm has few rows.
TEST(CudaLineSumGroups, AreOfPostNormModels) {
  std::vector<OpNames> fp16 = chains_with_gradients(*model_graph("bert", "fp16"));
  OpNames inner{"weighted_add", "layer_norm_grad", "layer_norm_weight_grad", "sum"};
  OpNames last{"add", "layer_norm_grad", "layer_norm_weight_grad", "sum"};
  OpNames embedding{"weighted_add", "layer_norm_grad", "layer_norm_weight_grad"};
  EXPECT_EQ(std::ranges::count(fp16, inner), 3);
  EXPECT_EQ(std::ranges::count(fp16, last), 1);
  EXPECT_EQ(std::ranges::count(fp16, embedding), 1);
  std::vector<OpNames> fp8 = chains_with_gradients(*model_graph("bert", "fp8"));
  inner.insert(inner.begin() + 2, "identity");
  EXPECT_EQ(std::ranges::count(fp8, inner), 3);
}

// Norms stand before the branches, and a last one alone: its gradient is a chain by its sums.
TEST(CudaLineSumGroups, AreOfPreNormModels) {
  std::vector<OpNames> fp16 = chains_with_gradients(*model_graph("gpt", "fp16"));
  OpNames inner{"layer_norm_grad", "weighted_add", "layer_norm_weight_grad", "sum"};
  OpNames last{"layer_norm_grad", "layer_norm_weight_grad", "sum"};
  OpNames embedding{"layer_norm_grad", "weighted_add", "layer_norm_weight_grad"};
  EXPECT_EQ(std::ranges::count(fp16, inner), 3);
  EXPECT_EQ(std::ranges::count(fp16, last), 1);
  EXPECT_EQ(std::ranges::count(fp16, embedding), 1);
}

}  // namespace
}  // namespace sigma1
