#include "sigma1/ops/shape.h"

#include "tests/conformance/at.h"
#include "tests/conformance/case.h"

namespace sigma1 {
namespace {

using Tensors = std::vector<Tensor>;

const TensorType small{{2, 3, 4}}, large{{20, 30, 40}};

Attributes reordered(std::vector<int64_t> order) { return {{"order", std::move(order)}}; }

std::vector<ConformanceCase> reordering_cases() {
  return {
      {"reshape",
       &reshape_op,
       {small},
       {{"shape", Shape{4, 6}}},
       [](const Tensors& in) {
         return Tensors{Tensor({4, 6}, in[0].data)};
       },
       {large},
       {{"shape", Shape{24000}}}},
      {"transpose of the last axes",
       &transpose_op,
       {small},
       reordered({0, 2, 1}),
       [](const Tensors& in) {
         auto swapped = [&](int64_t i, int64_t j, int64_t k) { return at(in[0], {i, k, j}); };
         return Tensors{tensor_of(2, 4, 3, swapped)};
       },
       {large},
       reordered({0, 2, 1})},
      // A rotation is not its own inverse, which a swap is.
      {"transpose of all axes in a ring",
       &transpose_op,
       {small},
       reordered({1, -1, 0}),
       [](const Tensors& in) {
         auto rotated = [&](int64_t i, int64_t j, int64_t k) { return at(in[0], {k, i, j}); };
         return Tensors{tensor_of(3, 4, 2, rotated)};
       },
       {large},
       reordered({1, -1, 0})},
  };
}

Attributes part(int64_t axis, int64_t begin, int64_t end) {
  return {{"axis", axis}, {"begin", begin}, {"end", end}};
}

std::vector<ConformanceCase> slice_cases() {
  return {
      {"slice of the first axis",
       &slice_op,
       {{{5, 3, 4}}},
       part(0, 1, 3),
       [](const Tensors& in) {
         auto later = [&](int64_t i, int64_t j, int64_t k) { return at(in[0], {i + 1, j, k}); };
         return Tensors{tensor_of(2, 3, 4, later)};
       },
       {large},
       part(0, 7, 19)},
      {"slice of a middle axis",
       &slice_op,
       {{{2, 5, 4}}},
       part(1, 2, 5),
       [](const Tensors& in) {
         auto later = [&](int64_t i, int64_t j, int64_t k) { return at(in[0], {i, j + 2, k}); };
         return Tensors{tensor_of(2, 3, 4, later)};
       },
       {{{40, 30, 40}}},
       part(1, 0, 9)},
      {"slice of the last axis, counted from the end",
       &slice_op,
       {{{2, 3, 5}}},
       part(-1, 1, 2),
       [](const Tensors& in) {
         auto second = [&](int64_t i, int64_t j, int64_t) { return at(in[0], {i, j, 1}); };
         return Tensors{tensor_of(2, 3, 1, second)};
       },
       {{{80, 90, 10}}},
       part(-1, 5, 8)},
  };
}

Attributes placed(int64_t axis, int64_t begin, int64_t total) {
  return {{"axis", axis}, {"begin", begin}, {"total", total}};
}

std::vector<ConformanceCase> unslice_cases() {
  return {
      {"unslice of a middle axis",
       &unslice_op,
       {small},
       placed(1, 2, 6),
       [](const Tensors& in) {
         auto inside = [&](int64_t i, int64_t j, int64_t k) {
           return j >= 2 && j < 5 ? at(in[0], {i, j - 2, k}) : 0.0;
         };
         return Tensors{tensor_of(2, 6, 4, inside)};
       },
       {large},
       placed(1, 10, 75)},
      {"unslice of the last axis",
       &unslice_op,
       {small},
       placed(-1, 0, 5),
       [](const Tensors& in) {
         auto inside = [&](int64_t i, int64_t j, int64_t k) {
           return k < 4 ? at(in[0], {i, j, k}) : 0.0;
         };
         return Tensors{tensor_of(2, 3, 5, inside)};
       },
       {large},
       placed(-1, 60, 100)},
  };
}

Attributes along(int64_t axis) { return {{"axis", axis}}; }

std::vector<ConformanceCase> concat_cases() {
  return {
      {"concat of three along a middle axis",
       &concat_op,
       {{{2, 3, 4}}, {{2, 1, 4}}, {{2, 5, 4}}},
       along(1),
       [](const Tensors& in) {
         auto pick = [&](int64_t i, int64_t j, int64_t k) {
           if (j < 3) return at(in[0], {i, j, k});
           return j < 4 ? at(in[1], {i, 0, k}) : at(in[2], {i, j - 4, k});
         };
         return Tensors{tensor_of(2, 9, 4, pick)};
       },
       {{{40, 20, 40}}, {{40, 10, 40}}, {{40, 30, 40}}},
       along(1)},
      {"concat along the last axis",
       &concat_op,
       {{{2, 3, 4}}, {{2, 3, 1}}},
       along(-1),
       [](const Tensors& in) {
         auto pick = [&](int64_t i, int64_t j, int64_t k) {
           return k < 4 ? at(in[0], {i, j, k}) : at(in[1], {i, j, 0});
         };
         return Tensors{tensor_of(2, 3, 5, pick)};
       },
       {{{40, 30, 20}}, {{40, 30, 10}}},
       along(-1)},
      {"concat of one",
       &concat_op,
       {small},
       along(0),
       [](const Tensors& in) { return in; },
       {large},
       along(0)},
  };
}

Attributes into(int64_t parts, int64_t axis) { return {{"axis", axis}, {"parts", parts}}; }

std::vector<ConformanceCase> split_cases() {
  return {
      {"split of a middle axis",
       &split_op,
       {{{2, 6, 5}}},
       into(3, 1),
       [](const Tensors& in) {
         Tensors parts;
         for (int64_t p = 0; p < 3; ++p) {
           auto of_part = [&](int64_t i, int64_t j, int64_t k) {
             return at(in[0], {i, 2 * p + j, k});
           };
           parts.push_back(tensor_of(2, 2, 5, of_part));
         }
         return parts;
       },
       {{{40, 30, 40}}},
       into(3, 1)},
      {"split of the last axis",
       &split_op,
       {{{2, 3, 4}}},
       into(2, -1),
       [](const Tensors& in) {
         auto left = [&](int64_t i, int64_t j, int64_t k) { return at(in[0], {i, j, k}); };
         auto right = [&](int64_t i, int64_t j, int64_t k) { return at(in[0], {i, j, k + 2}); };
         return Tensors{tensor_of(2, 3, 2, left), tensor_of(2, 3, 2, right)};
       },
       {{{40, 30, 40}}},
       into(2, -1)},
      {"split into one",
       &split_op,
       {small},
       into(1, 0),
       [](const Tensors& in) { return in; },
       {large},
       into(1, 0)},
  };
}

}  // namespace

std::vector<ConformanceCase> shape_cases() {
  std::vector<ConformanceCase> cases;
  for (const auto& group :
       {reordering_cases(), slice_cases(), unslice_cases(), concat_cases(), split_cases()}) {
    cases.insert(cases.end(), group.begin(), group.end());
  }
  return cases;
}

}  // namespace sigma1
