// The suite that the catalogue generates: an op without a case, a wrong formula, a wrong gradient
// or a scale rule that does not give unit scale fails here.
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "sigma1/backend/reference.h"
#include "sigma1/backend/simulate.h"
#include "sigma1/graph/sources.h"
#include "sigma1/ops/catalogue.h"
#include "sigma1/ops/pointwise.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/residual.h"
#include "sigma1/passes/differentiate.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

std::vector<Tensor> random_inputs(const ConformanceCase& c, uint64_t seed) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    inputs.push_back(sample_input(*c.op, {c.inputs, c.attributes}, i, false, seed));
  }
  return inputs;
}

std::vector<Tensor> evaluate(const ConformanceCase& c, const std::vector<Tensor>& inputs) {
  std::vector<const Tensor*> pointers;
  for (const Tensor& input : inputs) pointers.push_back(&input);
  std::vector<Tensor> outputs;
  for (const TensorType& type : c.op->infer({c.inputs, c.attributes}))
    outputs.emplace_back(type.shape);
  c.op->evaluate({pointers, outputs, c.attributes});
  return outputs;
}

class Conformance : public testing::TestWithParam<size_t> {
 protected:
  const ConformanceCase& c = all_cases()[GetParam()];
};

TEST_P(Conformance, ForwardIsTheFormula) {
  std::vector<Tensor> inputs = random_inputs(c, 1);
  std::vector<Tensor> outputs = evaluate(c, inputs), expected = c.expected(inputs);
  ASSERT_EQ(outputs.size(), expected.size());
  for (size_t output = 0; output < outputs.size(); ++output) {
    ASSERT_EQ(outputs[output].shape, expected[output].shape);
    for (int64_t i = 0; i < outputs[output].count(); ++i) {
      double want = expected[output][i];
      // Derivatives in `expected` may be central differences, good to nine digits or so.
      ASSERT_NEAR(outputs[output][i], want, 1e-8 * (1 + std::fabs(want))) << "element " << i;
    }
  }
}

// Σ over outputs of dy · f(x), whose gradient the op's rule must give.
double probe(const std::vector<Tensor>& outputs, const std::vector<Tensor>& dy) {
  double sum = 0;
  for (size_t output = 0; output < outputs.size(); ++output) {
    for (int64_t i = 0; i < outputs[output].count(); ++i) sum += outputs[output][i] * dy[output][i];
  }
  return sum;
}

std::vector<int64_t> all_axes(const Shape& shape) {
  std::vector<int64_t> axes(shape.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = static_cast<int64_t>(i);
  return axes;
}

struct Backward {
  std::vector<Tensor> gradients;  // empty where an input has none
  std::vector<Tensor> dy;
};

Backward backward(const ConformanceCase& c, const std::vector<Tensor>& inputs) {
  Graph graph;
  Bindings bindings;
  std::vector<Value> operands, terms;
  for (size_t i = 0; i < inputs.size(); ++i) {
    operands.push_back(graph.input("x" + std::to_string(i), c.inputs[i]));
    bindings["x" + std::to_string(i)] = inputs[i];
  }
  Backward result;
  for (Value output : graph.append(*c.op, operands, c.attributes)) {
    std::string name = "dy" + std::to_string(terms.size());
    result.dy.push_back(normal_tensor(output.shape(), name, 5));
    bindings[name] = result.dy.back();
    Value dy = graph.input(name, {output.shape()}, false);
    Value product = mul(output, dy);
    terms.push_back(product.shape().empty() ? product : sum(product, all_axes(product.shape())));
  }
  Value loss = add(terms);
  graph.mark_output("loss", loss);
  Gradients gradients = differentiate(graph, loss);
  ReferenceResult values = run_reference(graph, bindings);
  for (Value operand : operands) {
    Value gradient = gradients.of(operand);
    result.gradients.push_back(gradient ? values[gradient] : Tensor());
  }
  return result;
}

TEST_P(Conformance, GradientIsTheDerivative) {
  if (c.op->grad == nullptr) return;
  std::vector<Tensor> inputs = random_inputs(c, 2);
  Backward result = backward(c, inputs);
  constexpr double h = 1e-5;
  for (size_t input = 0; input < inputs.size(); ++input) {
    bool expected = carries_gradient(*c.op, {c.inputs, c.attributes}, input);
    ASSERT_EQ(result.gradients[input].shape.empty() && result.gradients[input].data.empty(),
              !expected);
    if (!expected) continue;
    ASSERT_EQ(result.gradients[input].shape, inputs[input].shape);
    for (int64_t i = 0; i < inputs[input].count(); ++i) {
      double x = inputs[input][i];
      inputs[input][i] = x + h;
      double above = probe(evaluate(c, inputs), result.dy);
      inputs[input][i] = x - h;
      double below = probe(evaluate(c, inputs), result.dy);
      inputs[input][i] = x;
      double want = (above - below) / (2 * h);
      ASSERT_NEAR(result.gradients[input][i], want, 1e-6 * (1 + std::fabs(want)))
          << "input " << input << " element " << i;
    }
  }
}

// Whether every output is proportional to this input, for a factor that is no power of two and
// negative: a bend at zero is not proportional.
bool is_proportional(const ConformanceCase& c, std::vector<Tensor> inputs, size_t input) {
  constexpr double kFactor = -3;
  std::vector<Tensor> once = evaluate(c, inputs);
  for (double& x : inputs[input].data) x *= kFactor;
  std::vector<Tensor> times = evaluate(c, inputs);
  for (size_t o = 0; o < once.size(); ++o) {
    double largest = 0;
    for (double y : once[o].data) largest = std::max(largest, std::fabs(y));
    for (int64_t i = 0; i < once[o].count(); ++i) {
      if (std::fabs(times[o][i] - kFactor * once[o][i]) > 1e-12 * largest) return false;
    }
  }
  return true;
}

// A factor moves through an op where its record says so: what it claims must hold, and what holds
// of a model's activation must be claimed, or factors would stay behind.
TEST_P(Conformance, ClaimsToBeLinearWhereItIs) {
  std::vector<Tensor> inputs = random_inputs(c, 3);
  OpView view{c.inputs, c.attributes};
  for (size_t i = 0; i < inputs.size(); ++i) {
    bool claimed = c.op->linear_in != nullptr && c.op->linear_in(view, i);
    if (c.inputs[i].kind == Kind::index) {
      EXPECT_FALSE(claimed) << "input " << i << " is an index";
    } else if (claimed) {
      EXPECT_TRUE(is_proportional(c, inputs, i)) << "input " << i << " is claimed to be";
    } else if (c.op->grad && !c.op->positive_inputs &&
               role_of(*c.op, view, i) == Role::activation) {
      EXPECT_FALSE(is_proportional(c, inputs, i)) << "input " << i << " could be claimed";
    }
  }
}

TEST_P(Conformance, MultipliesOnlyNumbers) {
  OpView view{c.inputs, c.attributes};
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.op->multiplies == nullptr || !c.op->multiplies(view, i)) continue;
    EXPECT_EQ(c.inputs[i].kind, Kind::real) << "input " << i;
    Role role = role_of(*c.op, view, i);
    EXPECT_TRUE(role == Role::activation || role == Role::weight) << "input " << i;
  }
}

TEST_P(Conformance, UnitScale) {
  if (c.op->scale == nullptr) return;
  ASSERT_EQ(c.large_inputs.size(), c.inputs.size()) << "an op with a scale rule needs large inputs";
  for (Criterion criterion : {Criterion::std_dev, Criterion::rms}) {
    Scales scales = c.op->scale({c.large_inputs, c.large_attributes}, {criterion, false});
    Measured measured = simulate(*c.op, c.large_inputs, c.large_attributes, criterion);
    bool is_loss = c.op->infer({c.large_inputs, c.large_attributes}).front().shape.empty();
    if (!is_loss) {
      EXPECT_NEAR(measured.output * scales.alpha, 1, c.scale_tolerance) << "output";
    }
    for (size_t i = 0; i < measured.gradients.size(); ++i) {
      if (!carries_gradient(*c.op, {c.large_inputs, c.large_attributes}, i)) continue;
      EXPECT_NEAR(measured.gradients[i] * scales.beta[i], 1, c.scale_tolerance) << "gradient " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Conformance, testing::Range(size_t{0}, all_cases().size()),
                         [](const auto& each) {
                           return case_name(all_cases()[each.param], each.param);
                         });

TEST(Catalogue, EveryOpHasACase) {
  std::set<const OpDef*> covered;
  for (const ConformanceCase& c : all_cases()) covered.insert(c.op);
  for (const OpDef* op : op_catalogue()) {
    EXPECT_TRUE(is_source(*op) || covered.contains(op)) << op->name << " has no conformance case";
  }
}

TEST(Catalogue, EveryCaseIsOfACataloguedOp) {
  std::set<const OpDef*> catalogued(op_catalogue().begin(), op_catalogue().end());
  for (const ConformanceCase& c : all_cases()) {
    EXPECT_TRUE(catalogued.contains(c.op)) << c.op->name << " is not in the catalogue";
  }
}

TEST(Catalogue, RecordsAreComplete) {
  for (const OpDef* op : op_catalogue()) {
    EXPECT_NE(op->infer, nullptr) << op->name;
    EXPECT_FALSE(op->formula.empty()) << op->name;
    if (!is_source(*op)) {
      EXPECT_NE(op->evaluate, nullptr) << op->name;
      EXPECT_EQ(op->grad == nullptr, op->scale == nullptr) << op->name;
    }
  }
}

}  // namespace
}  // namespace sigma1
