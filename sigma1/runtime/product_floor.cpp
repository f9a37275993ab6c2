#include "sigma1/runtime/product_floor.h"

#include <fmt/format.h>

#include <algorithm>

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

void write_normal_numbers(Store& store, const std::string& name) {
  constexpr int64_t kDrawn = 1 << 18;
  const Buffer& buffer = store.at(name);
  std::vector<float> drawn(static_cast<size_t>(std::min(kDrawn, buffer.count())));
  RandomStream random(0, "normal numbers", 0);
  for (size_t i = 0; i < drawn.size(); ++i) drawn[i] = static_cast<float>(random.normal(i));
  Codec codec(buffer.codec ? buffer.codec->cast() : Cast{find_format("fp32").format});
  int64_t bytes = store.bytes(name);
  std::vector<std::byte> codes(drawn.size() * static_cast<size_t>(codec.bytes()));
  codec.encode(drawn.data(), codes.data(), std::ssize(drawn));
  for (int64_t at = 0; at < bytes; at += std::ssize(codes)) {
    store.device().write(buffer.data + at, codes.data(), std::min(std::ssize(codes), bytes - at));
  }
}

ProductFloor::ProductFloor(const Graph& graph, const Device& device)
    : store_(device),
      program_(products_alone(graph), store_, {}, 0, Fusion::none),
      work_(device.record([this] { program_.launch(); })) {
  for (const std::string& name : store_.names()) write_normal_numbers(store_, name);
  store_.create("done", {Shape{1}}, Cast{find_format("fp32").format});
}

// Copies to the host are in the order of the kernels, and wait.
void ProductFloor::finish() const { store_.read("done"); }

}  // namespace sigma1
