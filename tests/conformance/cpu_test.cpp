// Holds every CPU kernel to its op's reference: in every format, in place, on one thread and on
// two, for small shapes and for those that keep threads busy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sigma1/backend/cpu/kernel_table.h"
#include "sigma1/backend/reference.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/catalogue.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"
#include "sigma1/passes/differentiate.h"
#include "tests/conformance/kernel_checks.h"

namespace sigma1 {
namespace {

const Storage kSingle{"fp32", {"fp32"}, {"fp32"}};
const Storage kMixed{"fp8 to fp16", {"e4m3", "e5m2"}, {"fp16"}};
const Storage kMoved{"e4m3, unit factors", {"e4m3"}, {"e4m3"}, true};

class CpuKernels : public testing::TestWithParam<size_t> {
 protected:
  const Sample sample{all_cases()[GetParam()]};
};

TEST_P(CpuKernels, GiveWhatTheReferenceGives) {
  for (const Storage& storage : all_storages()) expect_reference(sample, storage);
}

TEST_P(CpuKernels, GiveTheSameAnywhere) {
  for (const Storage& storage : all_storages()) {
    expect_same_in_place(sample, storage);
    expect_same_on_threads(sample, storage);
  }
  expect_own_random_bits(sample);
}

INSTANTIATE_TEST_SUITE_P(Ops, CpuKernels, testing::Range(size_t{0}, all_cases().size()),
                         [](const auto& each) {
                           return case_name(all_cases()[each.param], each.param);
                         });

// Some pieces of work for every thread, and not too much for the reference.
constexpr int64_t kMostElements = 100'000;

int64_t element_total(const ConformanceCase& c) {
  int64_t total = 0;
  for (const TensorType& type : c.inputs) total += type.count();
  for (const TensorType& type : c.op->infer({c.inputs, c.attributes})) total += type.count();
  return total;
}

// Halves the largest size that may be halved; false where attributes bind them all.
bool shrink(ConformanceCase& c) {
  std::set<int64_t, std::greater<>> sizes;
  for (const TensorType& type : c.inputs) sizes.insert(type.shape.begin(), type.shape.end());
  for (int64_t size : sizes) {
    std::vector<TensorType> halved = c.inputs;
    for (TensorType& type : halved) std::ranges::replace(type.shape, size, (size + 1) / 2);
    try {
      c.op->infer({halved, c.attributes});
    } catch (const Error&) {
      continue;
    }
    c.inputs = halved;
    return size > 1;
  }
  return false;
}

// The nodes that only gradients emit, behind an op.
std::vector<ConformanceCase> gradient_nodes(const ConformanceCase& c) {
  Graph graph;
  std::vector<Value> operands, terms;
  for (const TensorType& type : c.inputs) {
    operands.push_back(graph.input(fmt::format("x{}", operands.size()), type));
  }
  for (Value output : graph.append(*c.op, operands, c.attributes)) {
    Value dy = graph.input(fmt::format("dy{}", terms.size()), {output.shape()}, false);
    Value product = mul(output, dy);
    Value flat = reshape(product, {product.type().count()});
    terms.push_back(sum(flat, {0}));
  }
  Value loss = add(terms);
  graph.mark_output("loss", loss);
  differentiate(graph, loss);
  std::vector<ConformanceCase> found;
  for (const Node& node : graph.nodes()) {
    if (is_source(*node.op) || node.op->grad != nullptr) continue;
    found.push_back({c.label, node.op, node.input_types(), node.attributes, {}, {}, {}});
  }
  return found;
}

std::vector<ConformanceCase> make_large_cases() {
  std::vector<ConformanceCase> large = cut_shape_cases();
  for (const ConformanceCase& c : all_cases()) {
    if (c.large_inputs.empty()) continue;
    ConformanceCase each{c.label, c.op, c.large_inputs, c.large_attributes, {}, {}, {}};
    while (element_total(each) > kMostElements && shrink(each)) continue;
    large.push_back(each);
    if (each.op->grad == nullptr) continue;
    for (ConformanceCase& gradient : gradient_nodes(each)) large.push_back(std::move(gradient));
  }
  return large;
}

const std::vector<ConformanceCase>& large_cases() {
  static const std::vector<ConformanceCase> cases = make_large_cases();
  return cases;
}

class LargeCpuKernels : public testing::TestWithParam<size_t> {
 protected:
  const Sample sample{large_cases()[GetParam()]};
};

TEST_P(LargeCpuKernels, GiveWhatTheReferenceGivesAnywhere) {
  for (const Storage& storage : {kSingle, kMixed, kMoved}) {
    expect_reference(sample, storage);
    expect_same_on_threads(sample, storage);
    expect_same_in_place(sample, storage);
  }
  expect_own_random_bits(sample);
}

INSTANTIATE_TEST_SUITE_P(Ops, LargeCpuKernels, testing::Range(size_t{0}, large_cases().size()),
                         [](const auto& each) {
                           return case_name(large_cases()[each.param], each.param);
                         });

TEST(CpuShapeKernels, MoveIndicesToo) {
  std::set<const OpDef*> movers{&reshape_op, &transpose_op, &slice_op, &concat_op, &split_op};
  for (const ConformanceCase& c : all_cases()) {
    if (!movers.contains(c.op)) continue;
    SCOPED_TRACE(c.label);
    std::vector<TensorType> types = c.inputs;
    std::vector<Tensor> inputs;
    for (TensorType& type : types) {
      type.kind = Kind::index;
      inputs.push_back(index_tensor(type.shape, int64_t{1} << 31, "indices", inputs.size()));
    }
    KernelCall call(*c.op, types, c.attributes, kSingle, inputs);
    std::vector<Tensor> want = reference(c, call);
    std::vector<std::vector<std::byte>> got = call.run();
    for (size_t o = 0; o < got.size(); ++o) {
      EXPECT_EQ(decoded(call.output(o), got[o]).data, want[o].data);
    }
  }
}

std::string refusal_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CpuEmbeddingKernels, RefuseWhatTheReferenceRefuses) {
  for (const ConformanceCase& c : embedding_cases()) {
    SCOPED_TRACE(c.label);
    int64_t rows = c.op->index_limit({c.inputs, c.attributes}, 1);
    for (double wrong : {-1.0, static_cast<double>(rows)}) {
      Sample sample(c);
      sample.inputs[1].data.back() = wrong;
      KernelCall call = sample.call(kSingle);
      std::string refusal = refusal_of([&] { reference(c, call); });
      EXPECT_NE(refusal, "");
      EXPECT_EQ(refusal_of([&] { call.run(); }), refusal);
    }
  }
}

// Nothing, too little, too much and no number at all: no scale follows from them, and a history
// that holds one is no worse.
TEST(CpuCastKernels, StandWhatGivesNoScale) {
  for (const ConformanceCase& c : cast_cases()) {
    for (double planted : {0.0, 1e-42, 1e-38, 3e38, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
      SCOPED_TRACE(fmt::format("{}, {}", c.label, planted));
      for (size_t input = 0; input < c.inputs.size(); ++input) {
        Sample sample(c);
        std::ranges::fill(sample.inputs[input].data, 0.0);
        sample.inputs[input].data[3] = planted;
        KernelCall call = sample.call(kSingle);
        std::vector<Tensor> want = reference(c, call);
        std::vector<std::vector<std::byte>> got = call.run();
        for (size_t o = 0; o < got.size(); ++o) {
          Tensor numbers = decoded(call.output(o), got[o]);
          for (int64_t i = 0; i < numbers.count(); ++i) {
            bool same =
                numbers[i] == want[o][i] || (std::isnan(numbers[i]) && std::isnan(want[o][i]));
            double slack = 1e-6 * std::fabs(want[o][i]);
            EXPECT_TRUE(same || std::fabs(numbers[i] - want[o][i]) <= slack)
                << "output " << o << " at " << i << ": " << numbers[i] << ", not " << want[o][i];
          }
        }
      }
    }
  }
}

TEST(CpuKernelTable, EveryOpHasAKernel) {
  for (const OpDef* op : op_catalogue()) {
    if (op == &input_op || op == &parameter_op) continue;
    EXPECT_NO_THROW(cpu::find_kernel(*op)) << op->name;
  }
}

TEST(CpuKernelTable, EveryOpWithoutOneIsNamed) { EXPECT_THROW(cpu::find_kernel(input_op), Bug); }

}  // namespace
}  // namespace sigma1
