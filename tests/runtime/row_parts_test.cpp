#include "sigma1/runtime/row_parts.h"

#include <gtest/gtest.h>

#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/shape.h"
#include "sigma1/runtime/placement.h"
#include "tests/backend/cpu_like.h"

namespace sigma1 {
namespace {

// Claims to run elementwise ops on parts of rows.
class FakeDevice : public CpuLike {
 public:
  Grouping grouping(const Graph&) const override {
    return {.is_pointwise = [](const Node&) { return false; }};
  }
  bool takes_parts(const Graph& graph, int node, size_t) const override {
    return graph.node(node).op == &relu_op;
  }
  bool gives_parts(const Graph& graph, int node, size_t) const override {
    return graph.node(node).op == &relu_op;
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
