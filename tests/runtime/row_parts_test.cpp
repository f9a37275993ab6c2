#include "sigma1/runtime/row_parts.h"

#include <gtest/gtest.h>

#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/shape.h"
#include "sigma1/runtime/placement.h"

namespace sigma1 {
namespace {

// The CPU, but for elementwise ops that it claims to run on parts of rows.
class FakeDevice : public Device {
 public:
  std::string name() const override { return "fake"; }
  std::byte* allocate(int64_t bytes) const override { return cpu_device().allocate(bytes); }
  void release(std::byte* memory) const noexcept override { cpu_device().release(memory); }
  void write(std::byte* to, const void* from, int64_t bytes) const override {
    cpu_device().write(to, from, bytes);
  }
  void read(void* to, const std::byte* from, int64_t bytes) const override {
    cpu_device().read(to, from, bytes);
  }
  const Kernel& find_kernel(const OpDef& op) const override { return cpu_device().find_kernel(op); }
  Grouping grouping(const Graph&) const override {
    return {.is_pointwise = [](const Node&) { return false; }};
  }
  std::unique_ptr<Chain> make_chain(NodeGroup::Kind kind,
                                    std::vector<ChainStep> steps) const override {
    return cpu_device().make_chain(kind, std::move(steps));
  }
  bool takes_parts(const Graph& graph, int node, size_t) const override {
    return graph.node(node).op == &relu_op;
  }
  bool gives_parts(const Graph& graph, int node, size_t) const override {
    return graph.node(node).op == &relu_op;
  }
  std::unique_ptr<Recording> record(std::function<void()> work) const override {
    return cpu_device().record(std::move(work));
  }
  void when_finite(std::span<const Buffer> numbers, const uint64_t* step, uint64_t* bad_step,
                   const std::function<void()>& body) const override {
    cpu_device().when_finite(numbers, step, bad_step, body);
  }
  std::unique_ptr<Readout> read_later(std::vector<std::span<const std::byte>> from) const override {
    return cpu_device().read_later(std::move(from));
  }
};

struct Cut {
  Graph graph;
  Value whole, joined, y;
  std::vector<Value> parts, results;

  // Of three parts of 8 numbers; `last` is applied to the third.
  explicit Cut(Value (*last)(Value)) {
    Value x = graph.input("x", {{4, 8}});
    whole = matmul(x, graph.parameter("w", {8, 24}, {}));
    parts = split(whole, 1, 3);
    for (size_t i = 0; i < 3; ++i) results.push_back(i < 2 ? relu(parts[i]) : last(parts[i]));
    joined = concat(results, 1);
    y = matmul(joined, graph.parameter("v", {24, 4}, {}));
    graph.mark_output("y", y);
  }
};

TEST(RowParts, LieInTheWhole) {
  Cut cut(relu);
  FakeDevice device;
  ASSERT_EQ(find_row_parts(cut.graph, device).size(), 2U);
  Placement placement = place_values(cut.graph, {}, Fusion::chains, device);
  for (size_t i = 0; i < 3; ++i) {
    int64_t first = 4 * 8 * static_cast<int64_t>(i);
    EXPECT_EQ(placement.of(cut.parts[i]).offset, placement.of(cut.whole).offset + first);
    EXPECT_EQ(placement.of(cut.results[i]).offset, placement.of(cut.joined).offset + first);
    EXPECT_EQ(placement.of(cut.parts[i]).pitch, 24);
    EXPECT_EQ(placement.of(cut.results[i]).pitch, 24);
  }
  EXPECT_EQ(placement.of(cut.joined).pitch, 0);
  EXPECT_NE(placement.of(cut.joined).offset, placement.of(cut.whole).offset);
  for (const NodeGroup& group : placement.groups) {
    for (int node : group.nodes) {
      EXPECT_NE(cut.graph.node(node).op, &split_op);
      EXPECT_NE(cut.graph.node(node).op, &concat_op);
    }
  }
}

TEST(RowParts, OnlyWhereAllReadersAndWritersCan) {
  Cut cut(tanh);
  EXPECT_TRUE(find_row_parts(cut.graph, FakeDevice()).empty());
  EXPECT_TRUE(find_row_parts(Cut(relu).graph, cpu_device()).empty());
}

TEST(RowParts, NotWhereAPartIsAnOutputOrIsReadTwice) {
  Cut marked(relu);
  marked.graph.mark_output("part", marked.parts[1]);
  marked.graph.mark_output("again", relu(marked.results[0]));
  EXPECT_TRUE(find_row_parts(marked.graph, FakeDevice()).empty());
}

// Whoever looks at every tensor gets them apart.
TEST(RowParts, NotWithoutFusion) {
  Cut cut(relu);
  Placement placement = place_values(cut.graph, {}, Fusion::none, FakeDevice());
  EXPECT_EQ(placement.of(cut.parts[1]).pitch, 0);
}

}  // namespace
}  // namespace sigma1
