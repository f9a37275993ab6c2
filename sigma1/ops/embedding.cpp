#include "sigma1/ops/embedding.h"

#include <cmath>

#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

void expect_rank(const OpView& v, size_t input, int rank) {
  if (v.in(input).rank() == rank) return;
  throw Error("input {}: expected {} axes, got shape {}", input, rank,
              to_string(v.in(input).shape));
}

void expect_positive_rows(const OpView& v) {
  if (v.attr<int64_t>("rows") >= 1) return;
  throw Error("rows: expected at least 1, got {}", v.attr<int64_t>("rows"));
}

// The index at place i, which must name one of n rows.
int64_t checked_row(const Tensor& indices, int64_t i, int64_t n) {
  if (0 <= indices[i] && indices[i] < static_cast<double>(n))
    return static_cast<int64_t>(indices[i]);
  throw Error("expected an index within [0, {}), got {}", n, indices[i]);
}

// A row's gradient sums the gradients of its picks, so that its variance is their number. The mean
// over n rows is picks/n whichever are picked.
double gradient_factor(int64_t n, int64_t picks) {
  return std::sqrt(static_cast<double>(n) / static_cast<double>(picks));
}

std::vector<TensorType> infer_embedding(const OpView& v) {
  expect_kind(v, 0, Kind::real);
  expect_kind(v, 1, Kind::index);
  expect_rank(v, 0, 2);
  Shape shape = v.in(1).shape;
  shape.push_back(v.in(0).dim(-1));
  return {{shape}};
}

Scales scale_embedding(const OpView& v, const ScaleContext&) {
  return {1, {gradient_factor(v.in(0).dim(0), v.in(1).count()), 1.0}};
}

Grads grad_embedding(GradView& g) {
  int64_t rows = g.x(0).type().dim(0);
  Value dy = g.dy();
  return {g.graph().append_one(embedding_grad_op, {dy, g.x(1)}, {{"rows", rows}}), {}};
}

void evaluate_embedding(const EvalView& v) {
  const Tensor &table = v.in(0), &ids = v.in(1);
  int64_t d = table.dim(-1);
  for (int64_t i = 0; i < ids.count(); ++i) {
    int64_t row = checked_row(ids, i, table.dim(0));
    for (int64_t j = 0; j < d; ++j) v.out()[i * d + j] = table[row * d + j];
  }
}

Role embedding_role(const OpView&, size_t input) { return input == 0 ? Role::weight : Role::index; }

int64_t limit_to_table(const OpView& v, size_t) { return v.in(0).dim(0); }

// dy[ids…, d], ids[…] → [rows, d]
std::vector<TensorType> infer_embedding_grad(const OpView& v) {
  expect_positive_rows(v);
  expect_kind(v, 0, Kind::real);
  expect_kind(v, 1, Kind::index);
  expect_rank_at_least(v, 0, 1);
  Shape expected = v.in(1).shape;
  expected.push_back(v.in(0).dim(-1));
  expect_shape(v, 0, expected);
  return {{{v.attr<int64_t>("rows"), v.in(0).dim(-1)}}};
}

void evaluate_embedding_grad(const EvalView& v) {
  const Tensor &dy = v.in(0), &ids = v.in(1);
  int64_t d = dy.dim(-1);
  for (int64_t i = 0; i < ids.count(); ++i) {
    int64_t row = checked_row(ids, i, v.out().dim(0));
    for (int64_t j = 0; j < d; ++j) v.out()[row * d + j] += dy[i * d + j];
  }
}

int64_t limit_to_rows(const OpView& v, size_t) { return v.attr<int64_t>("rows"); }

std::vector<TensorType> infer_gather_rows(const OpView& v) {
  expect_kind(v, 0, Kind::real);
  expect_kind(v, 1, Kind::index);
  expect_rank(v, 0, 3);
  expect_rank(v, 1, 2);
  int64_t k = v.in(1).dim(1);
  expect_shape(v, 1, {v.in(0).dim(0), k});
  return {{{v.in(0).dim(0), k, v.in(0).dim(2)}}};
}

Scales scale_gather_rows(const OpView& v, const ScaleContext&) {
  return {1, {gradient_factor(v.in(0).dim(1), v.in(1).dim(1)), 1.0}};
}

Grads grad_gather_rows(GradView& g) {
  int64_t rows = g.x(0).type().dim(1);
  Value dy = g.dy();
  return {g.graph().append_one(gather_rows_grad_op, {dy, g.x(1)}, {{"rows", rows}}), {}};
}

void evaluate_gather_rows(const EvalView& v) {
  const Tensor &x = v.in(0), &rows = v.in(1);
  int64_t n = x.dim(1), d = x.dim(2), k = rows.dim(1);
  for (int64_t i = 0; i < rows.count(); ++i) {
    int64_t row = i / k * n + checked_row(rows, i, n);
    for (int64_t j = 0; j < d; ++j) v.out()[i * d + j] = x[row * d + j];
  }
}

Role gather_role(const OpView&, size_t input) {
  return input == 0 ? Role::activation : Role::index;
}

int64_t limit_to_sequence(const OpView& v, size_t) { return v.in(0).dim(1); }

// dy[batch, k, d], rows[batch, k] → [batch, n, d]
std::vector<TensorType> infer_gather_rows_grad(const OpView& v) {
  expect_positive_rows(v);
  expect_kind(v, 0, Kind::real);
  expect_kind(v, 1, Kind::index);
  expect_rank(v, 0, 3);
  expect_shape(v, 1, {v.in(0).dim(0), v.in(0).dim(1)});
  return {{{v.in(0).dim(0), v.attr<int64_t>("rows"), v.in(0).dim(2)}}};
}

void evaluate_gather_rows_grad(const EvalView& v) {
  const Tensor &dy = v.in(0), &rows = v.in(1);
  int64_t n = v.out().dim(1), d = dy.dim(2), k = rows.dim(1);
  for (int64_t i = 0; i < rows.count(); ++i) {
    int64_t row = i / k * n + checked_row(rows, i, n);
    for (int64_t j = 0; j < d; ++j) v.out()[row * d + j] += dy[i * d + j];
  }
}

}  // namespace

constinit const OpDef embedding_op{.name = "embedding",
                                   .formula = "rows of table[V,d] at b ids; α=1, β_table=(V/b)^½",
                                   .min_inputs = 2,
                                   .max_inputs = 2,
                                   .infer = infer_embedding,
                                   .scale = scale_embedding,
                                   .grad = grad_embedding,
                                   .evaluate = evaluate_embedding,
                                   .role = embedding_role,
                                   .index_limit = limit_to_table,
                                   .linear_in = first_input};

constinit const OpDef embedding_grad_op{.name = "embedding_grad",
                                        .formula = "each row: Σ dy where its id was looked up",
                                        .min_inputs = 2,
                                        .max_inputs = 2,
                                        .infer = infer_embedding_grad,
                                        .evaluate = evaluate_embedding_grad,
                                        .index_limit = limit_to_rows,
                                        .linear_in = first_input};

constinit const OpDef gather_rows_op{.name = "gather_rows",
                                     .formula = "k rows of each X[n,d]; α=1, β_X=(n/k)^½",
                                     .min_inputs = 2,
                                     .max_inputs = 2,
                                     .infer = infer_gather_rows,
                                     .scale = scale_gather_rows,
                                     .grad = grad_gather_rows,
                                     .evaluate = evaluate_gather_rows,
                                     .role = gather_role,
                                     .index_limit = limit_to_sequence,
                                     .linear_in = first_input};

constinit const OpDef gather_rows_grad_op{.name = "gather_rows_grad",
                                          .formula = "each row of each X: Σ dy where it was picked",
                                          .min_inputs = 2,
                                          .max_inputs = 2,
                                          .infer = infer_gather_rows_grad,
                                          .evaluate = evaluate_gather_rows_grad,
                                          .index_limit = limit_to_rows,
                                          .linear_in = first_input};

Value embedding(Value table, Value ids) {
  return table.graph->append_one(embedding_op, {table, ids});
}

Value gather_rows(Value x, Value rows) { return x.graph->append_one(gather_rows_op, {x, rows}); }

}  // namespace sigma1
