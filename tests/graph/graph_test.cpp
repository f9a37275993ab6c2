#include "sigma1/graph/graph.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/graph/print.h"
#include "sigma1/graph/verify.h"
#include "sigma1/ops/linear.h"
#include "sigma1/ops/pointwise.h"

namespace sigma1 {
namespace {

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Graph, NamesCarryTheirPathAndAreUnique) {
  Graph graph;
  Value x = graph.input("x", {{2, 3}});
  {
    Graph::Path outer(graph, "block0");
    Graph::Path inner(graph, "ffn");
    x = relu(x);
    x = relu(x);
  }
  x = relu(x);
  EXPECT_EQ(graph.node(1).name, "block0/ffn/relu");
  EXPECT_EQ(graph.node(2).name, "block0/ffn/relu_2");
  EXPECT_EQ(graph.node(3).name, "relu");
  verify(graph);
}

TEST(Graph, ShapeErrorsNameOpPathAndShapes) {
  Graph graph;
  Value x = graph.input("x", {{2, 3}}), w = graph.input("w", {{4, 5}});
  Graph::Path path(graph, "head");
  std::string error = error_of([&] { matmul(x, w); });
  for (const char* part : {"matmul", "head/", "[2, 3]", "[4, 5]"}) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
}

TEST(Graph, OperandsOfAnotherGraphAreRefused) {
  Graph one, other;
  Value x = one.input("x", {{2, 3}}), y = other.input("y", {{2, 3}});
  EXPECT_NE(error_of([&] { mul(x, y); }).find("another graph"), std::string::npos);
  EXPECT_NE(error_of([&] { one.mark_output("y", y); }).find("another graph"), std::string::npos);
  EXPECT_NE(error_of([&] { mul(x, Value{}); }).find("empty"), std::string::npos);
}

TEST(Graph, MissingOutputIsNamed) {
  Graph graph;
  EXPECT_NE(error_of([&] { graph.output("loss"); }).find("loss"), std::string::npos);
}

TEST(Verify, FindsWhatAPassMayBreak) {
  auto broken_by = [](auto breaking) {
    Graph graph;
    Value x = graph.input("x", {{2, 3}});
    relu(x);
    verify(graph);
    breaking(graph.node(1));
    EXPECT_THROW(verify(graph), Bug);
  };
  broken_by([](Node& node) { node.alpha = 0; });
  broken_by([](Node& node) { node.beta = {}; });
  broken_by([](Node& node) { node.beta = {NAN}; });
  broken_by([](Node& node) { node.outputs[0].shape = {3, 2}; });
  broken_by([](Node& node) { node.inputs[0].node = 1; });
  broken_by([](Node& node) { node.inputs[0].output = 1; });
  broken_by([](Node& node) { node.name = "x"; });
}

TEST(Print, TextDotAndJson) {
  Graph graph;
  Value x = graph.input("x", {{2, 3}});
  Value y = relu(x);
  graph.node(y.node).alpha = 1.5;
  CutMarks cut{{}, {true}};
  EXPECT_NE(to_text(graph, cut).find("relu = relu(|x) [2, 3]  α=1.5 β=1"), std::string::npos)
      << to_text(graph, cut);
  EXPECT_NE(to_dot(graph, cut).find("n0 -> n1 [style=dashed"), std::string::npos);
  EXPECT_NE(to_json(graph, cut).find("\"alpha\": 1.5"), std::string::npos);
}

TEST(Attributes, AreTyped) {
  Attributes attributes{{"axis", int64_t{2}}};
  EXPECT_EQ(attributes.get<int64_t>("axis"), 2);
  EXPECT_THROW(attributes.get<double>("axis"), Bug);
  EXPECT_THROW(attributes.get<int64_t>("missing"), Bug);
  attributes.set("axis", int64_t{3});
  EXPECT_EQ(attributes, (Attributes{{"axis", int64_t{3}}}));
}

}  // namespace
}  // namespace sigma1
