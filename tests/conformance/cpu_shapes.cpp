// Shapes that the cases do not need, but that kernels cut into tiles and chunks with remainders.
#include "sigma1/graph/sources.h"
#include "sigma1/ops/embedding.h"
#include "sigma1/ops/reduce.h"
#include "sigma1/ops/shape.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

using Axes = std::vector<int64_t>;

ConformanceCase shape_case(const OpDef& op, std::vector<TensorType> inputs, Attributes attributes) {
  std::string label;
  for (const TensorType& type : inputs) label += to_string(type.shape);
  return {label, &op, std::move(inputs), std::move(attributes), {}, {}, {}};
}

}  // namespace

std::vector<ConformanceCase> cut_shape_cases() {
  std::vector<ConformanceCase> cases;
  auto transposes = [&](Shape shape, Axes order) {
    cases.push_back(shape_case(transpose_op, {{std::move(shape)}}, {{"order", order}}));
  };
  transposes({150, 131}, {1, 0});
  transposes({3, 70, 5, 65}, {3, 0, 2, 1});
  transposes({2, 3, 70, 66}, {1, 0, 3, 2});
  transposes({70, 1, 3, 1, 67}, {4, 3, 1, 0, 2});
  transposes({9, 7, 5, 3, 2}, {4, 2, 0, 3, 1});
  transposes({1, 1}, {1, 0});
  for (const OpDef* op : {&sum_op, &mean_op}) {
    auto sums = [&](Shape shape, Axes axes) {
      cases.push_back(shape_case(*op, {{std::move(shape)}}, {{"axes", axes}}));
    };
    sums({1100, 70}, {0});
    sums({150, 1030}, {0});
    sums({300, 130}, {1});
    sums({210, 190}, {0, 1});
    sums({5, 131, 3, 17}, {1, 3});
    sums({5, 131, 3, 17}, {0, 2});
    sums({700, 3, 13}, {0, 1});
    sums({1, 1}, {0});
  }
  auto broadcasts = [&](Shape from, Shape shape, Axes axes) {
    cases.push_back(
        shape_case(broadcast_op, {{std::move(from)}}, {{"shape", shape}, {"axes", axes}}));
  };
  broadcasts({}, {3000}, {0});
  broadcasts({1030}, {31, 1030}, {0});
  broadcasts({31}, {31, 1030}, {1});
  broadcasts({7, 11}, {5, 7, 13, 11, 3}, {0, 2, 4});
  for (bool index : {false, true}) {
    Attributes attributes{{"shape", Shape{3, 5, 101}}, {"value", index ? 7.0 : -2.6}};
    attributes.set("index", index);
    cases.push_back(shape_case(constant_op, {}, attributes));
  }
  // Every row picked often, and hardly any.
  for (int64_t rows : {3, 2000}) {
    Attributes of_rows{{"rows", rows}};
    TensorType picks{{500}, Kind::index}, pairs{{20, 9}, Kind::index};
    cases.push_back(shape_case(embedding_op, {{{rows, 37}}, picks}, {}));
    cases.push_back(shape_case(embedding_grad_op, {{{500, 37}}, picks}, of_rows));
    cases.push_back(shape_case(gather_rows_op, {{{20, rows, 3}}, pairs}, {}));
    cases.push_back(shape_case(gather_rows_grad_op, {{{20, 9, 3}}, pairs}, of_rows));
  }
  return cases;
}

}  // namespace sigma1
