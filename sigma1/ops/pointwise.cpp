#include "sigma1/ops/pointwise.h"

#include <cmath>

#include "sigma1/base/rng.h"
#include "sigma1/ops/pointwise_math.h"
#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

// Of an activation's input, inside the function: part of what the model computes, so that no scheme
// undoes it.
double multiplier_of(const Attributes& attributes) { return attributes.get_or("multiplier", 1.0); }

template <class Function>
ElementwiseMoments activation_moments(double multiplier) {
  return elementwise_moments([multiplier](double x) {
    return Dual{Function::value(multiplier * x), multiplier * Function::derivative(multiplier * x)};
  });
}

// The factors of an activation under a unit normal input, integrated once where no multiplier is.
template <class Function>
Scales scale_activation(const OpView& v, const ScaleContext& context) {
  static const ElementwiseMoments plain = activation_moments<Function>(1);
  double multiplier = multiplier_of(v.attributes);
  ElementwiseMoments moments = multiplier == 1 ? plain : activation_moments<Function>(multiplier);
  ElementwiseScale scale = elementwise_scale(moments, context.criterion);
  return {scale.alpha, {scale.beta}};
}

// Table A.2's constants are empirical: followed to the digit where it is asked for as printed.
struct Printed {
  double alpha, beta;
};
template <class Function>
constexpr Printed kPrinted{};
template <>
constexpr Printed kPrinted<pointwise::Gelu>{1.701, 1.481};
template <>
constexpr Printed kPrinted<pointwise::Tanh>{1.593, 1.467};
template <>
constexpr Printed kPrinted<pointwise::Sigmoid>{4.802, 4.722};

template <class Function>
Scales scale_as_printed(const OpView& v, const ScaleContext& context) {
  bool printed = context.as_printed && context.criterion == Criterion::std_dev;
  if (printed && multiplier_of(v.attributes) == 1) {
    return {kPrinted<Function>.alpha, {kPrinted<Function>.beta}};
  }
  return scale_activation<Function>(v, context);
}

// The input of a logarithm is positive, so it is taken as exp(z) with z unit normal: the output is
// z, and the derivative 1/x = exp(−z) has the mean square e².
Scales scale_log(const OpView&, const ScaleContext&) { return {1, {std::exp(-1.0)}}; }

template <class Function>
void evaluate_activation(const EvalView& v) {
  double m = multiplier_of(v.attributes);
  for (int64_t i = 0; i < v.out().count(); ++i) v.out()[i] = Function::value(m * v.in(0)[i]);
}

template <class Function>
void evaluate_activation_grad(const EvalView& v) {
  double m = multiplier_of(v.attributes);
  for (int64_t i = 0; i < v.out().count(); ++i) {
    v.out()[i] = m * Function::derivative(m * v.in(0)[i]) * v.in(1)[i];
  }
}

template <const OpDef& grad_op>
Grads grad_activation(GradView& g) {
  Attributes attributes = g.attributes();
  Value x = g.x(0), dy = g.dy();
  return {g.graph().append_one(grad_op, {x, dy}, attributes)};
}

std::vector<TensorType> infer_activation(const OpView& v) {
  double multiplier = multiplier_of(v.attributes);
  if (!(multiplier > 0) || std::isinf(multiplier)) {
    throw Error("multiplier: expected a positive number, got {}", multiplier);
  }
  return {v.in(0)};
}

std::vector<TensorType> infer_activation_grad(const OpView& v) {
  expect_shape(v, 1, v.in(0).shape);
  return infer_activation(v);
}

template <class Function>
consteval OpDef activation_grad(std::string_view name, bool positive_inputs = false) {
  return {.name = name,
          .formula = "f'(x) dy",
          .min_inputs = 2,
          .max_inputs = 2,
          .infer = infer_activation_grad,
          .evaluate = evaluate_activation_grad<Function>,
          .linear_in = last_input,
          .positive_inputs = positive_inputs};
}

template <class Function, const OpDef& grad_op>
consteval OpDef activation(std::string_view name, std::string_view formula,
                           Scales (*scale_rule)(const OpView&, const ScaleContext&)) {
  return {.name = name,
          .formula = formula,
          .infer = infer_activation,
          .scale = scale_rule,
          .grad = grad_activation<grad_op>,
          .evaluate = evaluate_activation<Function>};
}

bool is_suffix(const Shape& part, const Shape& whole) {
  return part.size() <= whole.size() && std::equal(part.rbegin(), part.rend(), whole.rbegin());
}

std::vector<TensorType> infer_mul(const OpView& v) {
  if (!is_suffix(v.in(1).shape, v.in(0).shape)) {
    throw Error("input 1: expected shape {} or its last axes, got {}", to_string(v.in(0).shape),
                to_string(v.in(1).shape));
  }
  return {v.in(0)};
}

// Independent unit factors make a unit product; a shorter operand's gradient is a sum of rows.
Scales scale_mul(const OpView& v, const ScaleContext&) {
  const int64_t rows = v.in(0).count() / v.in(1).count();
  return {1, {1, rsqrt(static_cast<double>(rows))}};
}

Grads grad_mul(GradView& g) {
  Value x = g.x(0), y = g.x(1), dy = g.dy();
  Value dx = mul(dy, y);
  Value product = mul(dy, x);
  return {dx, sum_to_shape(product, y.shape())};
}

void evaluate_mul(const EvalView& v) {
  for (int64_t i = 0; i < v.out().count(); ++i) {
    v.out()[i] = v.in(0)[i] * v.in(1)[i % v.in(1).count()];
  }
}

// Undone on the way out and back, so that a multiplier of the model never changes what is stored.
Scales scale_scale(const OpView& v, const ScaleContext&) {
  double factor = v.attr<double>("factor");
  if (factor == 0 || !std::isfinite(factor)) {
    throw Error("factor: expected a number other than 0, which leaves no scale, got {}", factor);
  }
  double inverse = 1 / std::fabs(factor);
  return {inverse, {inverse}};
}

Grads grad_scale(GradView& g) { return {scale(g.dy(), g.attr<double>("factor"))}; }

void evaluate_scale(const EvalView& v) {
  for (int64_t i = 0; i < v.out().count(); ++i) v.out()[i] = v.attr<double>("factor") * v.in(0)[i];
}

Scales scale_one(const OpView&, const ScaleContext&) { return {1, {1}}; }

Grads grad_identity(GradView& g) { return {g.dy()}; }

void evaluate_identity(const EvalView& v) { v.out().data = v.in(0).data; }

std::vector<TensorType> infer_dropout(const OpView& v) {
  double p = v.attr<double>("p");
  if (!(p >= 0 && p < 1)) throw Error("p: expected a probability below 1, got {}", p);
  return {v.in(0)};
}

// E[(mask / (1−p))²] = 1 / (1−p).
Scales scale_dropout(const OpView& v, const ScaleContext&) {
  double root = std::sqrt(1 - v.attr<double>("p"));
  return {root, {root}};
}

// The gradient passes the same mask: the same stream at the same step.
Grads grad_dropout(GradView& g) {
  Attributes attributes = g.attributes();
  return {g.graph().append_one(dropout_op, {g.dy()}, attributes)};
}

void evaluate_dropout(const EvalView& v) {
  double p = v.attr<double>("p");
  RandomStream random(static_cast<uint64_t>(v.attr<int64_t>("seed")), v.attr<std::string>("stream"),
                      v.step);
  for (int64_t i = 0; i < v.out().count(); ++i) {
    bool kept = random.uniform(static_cast<uint64_t>(i)) >= p;
    v.out()[i] = kept ? v.in(0)[i] / (1 - p) : 0;
  }
}

Attributes scale_defaults(std::span<const TensorType>) { return {{"factor", 2.0}}; }

Attributes dropout_defaults(std::span<const TensorType>) {
  return {{"p", 0.1}, {"stream", std::string("dropout")}, {"seed", int64_t{0}}};
}

}  // namespace

using namespace pointwise;

constinit const OpDef relu_grad_op = activation_grad<Relu>("relu_grad");
constinit const OpDef gelu_grad_op = activation_grad<Gelu>("gelu_grad");
constinit const OpDef gelu_tanh_grad_op = activation_grad<GeluTanh>("gelu_tanh_grad");
constinit const OpDef tanh_grad_op = activation_grad<Tanh>("tanh_grad");
constinit const OpDef sigmoid_grad_op = activation_grad<Sigmoid>("sigmoid_grad");
constinit const OpDef silu_grad_op = activation_grad<Silu>("silu_grad");
constinit const OpDef softplus_grad_op = activation_grad<Softplus>("softplus_grad");
constinit const OpDef exp_grad_op = activation_grad<Exp>("exp_grad");
constinit const OpDef log_grad_op = activation_grad<Log>("log_grad", true);

constinit const OpDef relu_op = activation<Relu, relu_grad_op>(
    "relu", "max(x, 0); α=√(2/(1−1/π)), β=√2", scale_activation<Relu>);
constinit const OpDef gelu_op =
    activation<Gelu, gelu_grad_op>("gelu", "x Φ(x); α=1.701, β=1.481", scale_as_printed<Gelu>);
constinit const OpDef gelu_tanh_op = activation<GeluTanh, gelu_tanh_grad_op>(
    "gelu_tanh", "x (1 + tanh(√(2/π)(x + 0.044715x³)))/2; by quadrature",
    scale_activation<GeluTanh>);
constinit const OpDef tanh_op =
    activation<Tanh, tanh_grad_op>("tanh", "tanh(x); α=1.593, β=1.467", scale_as_printed<Tanh>);
constinit const OpDef sigmoid_op = activation<Sigmoid, sigmoid_grad_op>(
    "sigmoid", "1/(1 + e^−x); α=4.802, β=4.722", scale_as_printed<Sigmoid>);
constinit const OpDef silu_op =
    activation<Silu, silu_grad_op>("silu", "x/(1 + e^−x); by quadrature", scale_activation<Silu>);
constinit const OpDef softplus_op = activation<Softplus, softplus_grad_op>(
    "softplus", "log(1 + e^x); by quadrature", scale_activation<Softplus>);
constinit const OpDef exp_op =
    activation<Exp, exp_grad_op>("exp", "e^x; by quadrature", scale_activation<Exp>);

constinit const OpDef log_op{.name = "log",
                             .formula = "log(x) for log-normal x; α=1, β=1/e",
                             .infer = infer_like_first,
                             .scale = scale_log,
                             .grad = grad_activation<log_grad_op>,
                             .evaluate = evaluate_activation<Log>,
                             .positive_inputs = true};

constinit const OpDef mul_op{.name = "mul",
                             .formula = "x y, y perhaps shorter; α=1, β_x=1, β_y=rows^-½",
                             .min_inputs = 2,
                             .max_inputs = 2,
                             .infer = infer_mul,
                             .scale = scale_mul,
                             .grad = grad_mul,
                             .evaluate = evaluate_mul,
                             .linear_in = every_input};

constinit const OpDef scale_op{.name = "scale",
                               .formula = "factor x; α=β=1/|factor|",
                               .infer = infer_like_first,
                               .scale = scale_scale,
                               .grad = grad_scale,
                               .evaluate = evaluate_scale,
                               .defaults = scale_defaults,
                               .linear_in = first_input};

constinit const OpDef identity_op{.name = "identity",
                                  .formula = "x; α=β=1, or what a rewrite puts there",
                                  .infer = infer_like_first,
                                  .scale = scale_one,
                                  .grad = grad_identity,
                                  .evaluate = evaluate_identity,
                                  .linear_in = first_input};

constinit const OpDef dropout_op{.name = "dropout",
                                 .formula = "x mask/(1−p); α=β=√(1−p)",
                                 .infer = infer_dropout,
                                 .scale = scale_dropout,
                                 .grad = grad_dropout,
                                 .evaluate = evaluate_dropout,
                                 .defaults = dropout_defaults,
                                 .linear_in = first_input};

namespace {

Value activated(const OpDef& op, Value x, double multiplier) {
  Attributes attributes;
  if (multiplier != 1) attributes.set("multiplier", multiplier);
  return x.graph->append_one(op, {x}, attributes);
}

}  // namespace

Value relu(Value x) { return x.graph->append_one(relu_op, {x}); }
Value gelu(Value x, double multiplier) { return activated(gelu_op, x, multiplier); }
Value gelu_tanh(Value x) { return x.graph->append_one(gelu_tanh_op, {x}); }
Value tanh(Value x) { return x.graph->append_one(tanh_op, {x}); }
Value sigmoid(Value x) { return x.graph->append_one(sigmoid_op, {x}); }
Value silu(Value x, double multiplier) { return activated(silu_op, x, multiplier); }
Value softplus(Value x) { return x.graph->append_one(softplus_op, {x}); }
Value exp(Value x) { return x.graph->append_one(exp_op, {x}); }
Value log(Value x) { return x.graph->append_one(log_op, {x}); }
Value mul(Value x, Value y) { return x.graph->append_one(mul_op, {x, y}); }
Value scale(Value x, double factor) {
  return x.graph->append_one(scale_op, {x}, {{"factor", factor}});
}
Value identity(Value x) { return x.graph->append_one(identity_op, {x}); }
Value dropout(Value x, double p, const std::string& stream, uint64_t seed) {
  return x.graph->append_one(dropout_op, {x},
                             {{"p", p}, {"stream", stream}, {"seed", static_cast<int64_t>(seed)}});
}

}  // namespace sigma1
