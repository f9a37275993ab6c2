#include "sigma1/runtime/product_floor.h"

#include <fmt/format.h>

#include "sigma1/analysis/matrix_products.h"
#include "sigma1/ops/linear.h"
#include "sigma1/passes/precision.h"
#include "sigma1/runtime/placement.h"

namespace sigma1 {
namespace {

// What a product reads. Attention, whose products are many, computes in 16 bits from numbers of 8.
Cast stored_input(const Graph& graph, const Node& node, size_t input, bool is_many) {
  Value value = node.inputs[input];
  Cast cast = storage(graph.node(value.node), static_cast<size_t>(value.output));
  return is_many && cast.format.bits() == 8 ? storage_cast("fp16") : cast;
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
  Value last;
  for (const Node& node : graph.nodes()) {
    for (const MatrixProduct& each : matrix_products(node)) {
      Shape left{each.b, each.n}, right{each.n, each.m};
      if (each.count > 1) {
        left.insert(left.begin(), each.count);
        right.insert(right.begin(), each.count);
      }
      Cast of_left = stored_input(graph, node, 0, each.count > 1);
      Cast of_right = stored_input(graph, node, 1, each.count > 1);
      // A GPU multiplies numbers of 8 bits where they lie side by side, and a step keeps them so.
      bool turned = of_left.format.bits() == 8 && of_right.format.bits() == 8;
      if (turned) std::swap(right[right.size() - 1], right[right.size() - 2]);
      Value x = operands.get(left, of_left);
      Value w = operands.get(right, of_right);
      Value y = matmul(x, w, {.right = turned});
      Cast result = storage(node, 0);
      if (result.format.bits() == 8) result = storage_cast("fp16");
      alone->node(y.node).storage = {result};
      last = y;
    }
  }
  // One output is enough: the others' memory is used again.
  if (last) alone->mark_output("last", last);
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
