#include "sigma1/runtime/placement.h"

#include <gtest/gtest.h>

#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/shape.h"
#include "tests/backend/cpu_like.h"

namespace sigma1 {
namespace {

// Claims to compute what is made of joined parts at once, and sums of it.
class JoiningDevice : public CpuLike {
 public:
  Grouping grouping(const Graph&) const override {
    return {.is_pointwise = [](const Node&) { return false; },
            .takes_sum = [](const NodeGroup&, int) { return true; },
            .runs_joined = [](const std::vector<int>&) { return true; }};
  }
};

// All of a node's outputs, not its first alone.
TEST(Placement, OfJoinedNodesOnlyWhatIsMadeHasMemory) {
  Graph graph;
  std::vector<Value> parts = split(graph.input("x", {{4, 24}}), 1, 3);
  Value whole = concat(parts, 1), made = relu(whole), columns = sum(whole, {0});
  Value y = matmul(made, graph.parameter("w", {24, 2}, {}));
  graph.mark_output("columns", columns);
  graph.mark_output("y", y);
  Placement together = place_values(graph, {}, Fusion::chains, JoiningDevice());
  Placement apart = place_values(graph, {}, Fusion::none, JoiningDevice());
  for (Value inner : {parts[0], parts[1], parts[2], whole}) {
    EXPECT_EQ(together.of(inner).kind, Place::Kind::none);
    EXPECT_EQ(apart.of(inner).kind, Place::Kind::arena);
  }
  for (Value outer : {made, columns, y}) EXPECT_EQ(together.of(outer).kind, Place::Kind::arena);
  EXPECT_LT(together.arena.bytes, apart.arena.bytes);
}

}  // namespace
}  // namespace sigma1
