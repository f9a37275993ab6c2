// Elements by coordinates, so that a case can state its formula the way it is written on paper.
#pragma once

#include <initializer_list>

#include "sigma1/graph/tensor.h"

namespace sigma1 {

inline size_t place_of(const Tensor& tensor, std::initializer_list<int64_t> coordinates) {
  int64_t place = 0;
  auto size = tensor.shape.begin();
  for (int64_t coordinate : coordinates) place = place * *size++ + coordinate;
  return static_cast<size_t>(place);
}

inline double& at(Tensor& tensor, std::initializer_list<int64_t> coordinates) {
  return tensor.data[place_of(tensor, coordinates)];
}

inline double at(const Tensor& tensor, std::initializer_list<int64_t> coordinates) {
  return tensor.data[place_of(tensor, coordinates)];
}

// A tensor of rank 3 from a formula for its elements.
template <class F>
Tensor tensor_of(int64_t first, int64_t second, int64_t third, F f) {
  Tensor result(Shape{first, second, third});
  for (int64_t i = 0; i < first; ++i) {
    for (int64_t j = 0; j < second; ++j) {
      for (int64_t k = 0; k < third; ++k) at(result, {i, j, k}) = f(i, j, k);
    }
  }
  return result;
}

}  // namespace sigma1
