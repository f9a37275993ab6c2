#include "sigma1/runtime/product_floor.h"

#include <fmt/format.h>

#include "sigma1/analysis/matrix_products.h"
#include "sigma1/ops/linear.h"
#include "sigma1/runtime/placement.h"

namespace sigma1 {
namespace {

Cast stored_input(const Graph& graph, const Node& node, size_t input) {
  Value value = node.inputs[input];
  return storage(graph.node(value.node), static_cast<size_t>(value.output));
}

// The operands of a graph of products, each made once.
class Operands {
 public:
  explicit Operands(Graph& graph) : graph_(graph) {}

  Value get(const Shape& shape, const Cast& cast) {
    std::string key = fmt::format("{} e{}m{}", to_string(shape), cast.format.exponent_bits,
                                  cast.format.mantissa_bits);
    auto [place, is_new] = made_.try_emplace(key);
    if (is_new) {
      place->second = graph_.input(fmt::format("operand{}", made_.size()), {shape});
      graph_.node(place->second.node).storage = {cast};
    }
    return place->second;
  }

 private:
  Graph& graph_;
  std::map<std::string, Value> made_;
};

}  // namespace

std::shared_ptr<Graph> products_alone(const Graph& graph) {
  auto alone = std::make_shared<Graph>();
  Operands operands(*alone);
  for (const Node& node : graph.nodes()) {
    for (const MatrixProduct& each : matrix_products(node)) {
      Shape left{each.b, each.n}, right{each.n, each.m};
      if (each.count > 1) {
        left.insert(left.begin(), each.count);
        right.insert(right.begin(), each.count);
      }
      Value x = operands.get(left, stored_input(graph, node, 0));
      Value w = operands.get(right, stored_input(graph, node, 1));
      Value y = matmul(x, w);
      alone->node(y.node).storage = {storage(node, 0)};
      alone->mark_output(fmt::format("product{}", alone->outputs().size()), y);
    }
  }
  return alone;
}

ProductFloor::ProductFloor(const Graph& graph, const Device& device)
    : store_(device),
      program_(products_alone(graph), store_, {}, 0, Fusion::none),
      work_(device.record([this] { program_.launch(); })) {
  store_.create("done", {Shape{1}}, Cast{find_format("fp32").format});
}

// Copies to the host are in the order of the kernels, and wait.
void ProductFloor::finish() const { store_.read("done"); }

}  // namespace sigma1
