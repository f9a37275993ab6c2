#include "sigma1/ops/collective.h"

#include <limits>

#include "sigma1/numerics/float_format.h"
#include "sigma1/ops/rules.h"

namespace sigma1 {
namespace {

std::vector<TensorType> infer_collective(const OpView& v) {
  auto world = v.attr<int64_t>("world");
  if (world < 1) throw Error("world: expected 1 rank or more, got {}", world);
  for (size_t i = 0; i < v.inputs.size(); ++i) expect_kind(v, i, Kind::real);
  return {v.inputs.begin(), v.inputs.end()};
}

std::vector<TensorType> infer_all_reduce(const OpView& v) {
  find_format(v.attr<std::string>("format"));
  return infer_collective(v);
}

std::vector<TensorType> infer_owned(const OpView& v) {
  const auto& owners = v.attr<std::vector<int64_t>>("owners");
  if (owners.size() != v.inputs.size()) {
    throw Error("owners: expected one for each of {} tensors, got {}", v.inputs.size(),
                owners.size());
  }
  for (int64_t owner : owners) {
    if (owner >= 0 && owner < v.attr<int64_t>("world")) continue;
    throw Error("owners: expected ranks below {}, got {}", v.attr<int64_t>("world"), owner);
  }
  return infer_collective(v);
}

std::vector<TensorType> infer_reduce_scatter(const OpView& v) {
  find_format(v.attr<std::string>("format"));
  return infer_owned(v);
}

// The reference is one process: it knows nothing of what others have.
void evaluate_alone(const EvalView& v) {
  if (v.attr<int64_t>("world") != 1) throw Bug("the reference runs one rank");
  for (size_t i = 0; i < v.inputs.size(); ++i) v.out(i).data = v.in(i).data;
}

constexpr size_t kAnyNumber = std::numeric_limits<size_t>::max();

}  // namespace

constinit const OpDef all_reduce_op{.name = "all_reduce",
                                    .formula = "Σ over ranks of x₁, x₂, …, in every rank",
                                    .max_inputs = kAnyNumber,
                                    .infer = infer_all_reduce,
                                    .evaluate = evaluate_alone};

constinit const OpDef reduce_scatter_op{.name = "reduce_scatter",
                                        .formula = "Σ over ranks of xᵢ, in the rank that owns it",
                                        .max_inputs = kAnyNumber,
                                        .infer = infer_reduce_scatter,
                                        .evaluate = evaluate_alone};

constinit const OpDef all_gather_op{.name = "all_gather",
                                    .formula = "xᵢ of the rank that owns it, in every rank",
                                    .max_inputs = kAnyNumber,
                                    .infer = infer_owned,
                                    .evaluate = evaluate_alone};

std::vector<Value> all_reduce(const std::vector<Value>& tensors, int64_t world,
                              const std::string& format) {
  return tensors.front().graph->append(all_reduce_op, tensors,
                                       {{"world", world}, {"format", format}});
}

std::vector<Value> reduce_scatter(const std::vector<Value>& tensors, int64_t world,
                                  const std::string& format, const std::vector<int64_t>& owners) {
  return tensors.front().graph->append(reduce_scatter_op, tensors,
                                       {{"world", world}, {"format", format}, {"owners", owners}});
}

std::vector<Value> all_gather(const std::vector<Value>& tensors, int64_t world,
                              const std::vector<int64_t>& owners) {
  return tensors.front().graph->append(all_gather_op, tensors,
                                       {{"world", world}, {"owners", owners}});
}

bool is_collective(const OpDef& op) {
  return &op == &all_reduce_op || &op == &reduce_scatter_op || &op == &all_gather_op;
}

}  // namespace sigma1
