#include "sigma1/analysis/scaling_cost.h"

#include "sigma1/analysis/gradient_edges.h"
#include "sigma1/analysis/matrix_products.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/residual.h"
#include "sigma1/ops/shape.h"

namespace sigma1 {
namespace {

double ratio(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Kernels take factors in fp32, where 1/√2·√2 is 1.
bool multiplies_by(double factor) { return static_cast<float>(factor) != 1.0F; }

class Counter {
 public:
  explicit Counter(int bytes_per_number) : bytes_per_number_(bytes_per_number) {}

  void add(double factor, int64_t numbers) {
    if (!multiplies_by(factor)) return;
    ++cost.factors;
    cost.multiplications += numbers;
  }

  void add_in_product(double factor, int64_t numbers) {
    add(factor, numbers);
    if (multiplies_by(factor)) cost.in_products += numbers;
  }

  void add_pass(double factor, int64_t numbers, const std::string& name) {
    add(factor, numbers);
    if (!multiplies_by(factor)) return;
    cost.bytes += 2 * numbers * bytes_per_number_;
    cost.passes.push_back(name);
  }

  ScalingCost cost;

 private:
  int bytes_per_number_;
};

// Nothing is computed without the factor; a reshape is then a view.
bool only_scales(const Node& node) {
  return node.op == &identity_op || node.op == &scale_op || node.op == &reshape_op;
}

void add_weights(Counter& counter, const Node& node) {
  if (node.op != &weighted_add_op) return;
  const auto& weights = node.attributes.get<std::vector<double>>("weights");
  for (size_t i = 0; i < weights.size(); ++i) {
    counter.add(weights[i], node.outputs.front().count());
  }
}

bool is_scaled(const Graph& graph, const GradientEdges& edges, int index) {
  const Node& node = graph.node(index);
  bool scaled = multiplies_by(node.alpha);
  for (size_t i = 0; i < node.beta.size(); ++i) {
    scaled = scaled || (edges.contains(index, i) && multiplies_by(node.beta[i]));
  }
  return scaled;
}

}  // namespace

ScalingCost cost_of_separate_factors(const Graph& graph, int bytes_per_number) {
  Counter counter(bytes_per_number);
  for (const Node& node : graph.nodes()) {
    for (const TensorType& output : node.outputs) {
      counter.add_pass(node.alpha, output.count(), node.name);
    }
  }
  return counter.cost;
}

ScalingCost cost_of_folded_factors(const Graph& graph, int bytes_per_number) {
  Counter counter(bytes_per_number);
  for (const Node& node : graph.nodes()) {
    double own = node.op == &scale_op ? node.attributes.get<double>("factor") : 1;
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      double factor = own * node.factor(o);
      int64_t numbers = node.outputs[o].count();
      if (only_scales(node)) {
        counter.add_pass(factor, numbers, node.name);
      } else if (node.op->multiplies != nullptr) {
        counter.add_in_product(factor, numbers);
      } else {
        counter.add(factor, numbers);
      }
    }
    add_weights(counter, node);
  }
  return counter.cost;
}

double PaperEstimate::ops_per_matmul() const {
  return ratio(static_cast<double>(scaled_ops), static_cast<double>(products));
}

double PaperEstimate::by_hidden_size() const {
  return ratio(ops_per_matmul(), static_cast<double>(2 * hidden_size));
}

PaperEstimate paper_estimate(const Graph& forward, int64_t hidden_size) {
  PaperEstimate estimate{.hidden_size = hidden_size};
  GradientEdges edges(forward);
  double flops = 0, rescaling = 0;
  auto inverse = [](int64_t size) { return 1 / static_cast<double>(size); };
  for (int i = 0; i < forward.size(); ++i) {
    if (is_scaled(forward, edges, i)) ++estimate.scaled_ops;
    for (const MatrixProduct& product : matrix_products(forward.node(i))) {
      ++estimate.products;
      auto own = static_cast<double>(product.flops());
      flops += own;
      rescaling += own * (inverse(product.b) + inverse(product.n) + inverse(product.m)) / 6;
    }
  }
  estimate.by_product_sizes = ratio(rescaling, flops);
  return estimate;
}

double StepScalingCost::share(const ScalingCost& cost) const {
  return ratio(static_cast<double>(cost.multiplications), static_cast<double>(product_flops));
}

}  // namespace sigma1
