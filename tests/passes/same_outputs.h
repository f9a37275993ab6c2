// What a graph computes, by the reference: a pass that only restructures must not change it.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/backend/reference.h"

namespace sigma1 {

using Outputs = std::map<std::string, Tensor>;

inline Outputs outputs_of(const Graph& graph, const Bindings& bindings) {
  ReferenceResult result = run_reference(graph, bindings);
  Outputs outputs;
  for (const auto& [name, value] : graph.outputs()) outputs[name] = result[value];
  return outputs;
}

// Each element to `tolerance` of the tensor's largest.
inline void expect_same_outputs(const Outputs& got, const Outputs& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (const auto& [name, tensor] : want) {
    ASSERT_TRUE(got.contains(name)) << name;
    ASSERT_EQ(got.at(name).shape, tensor.shape) << name;
    double largest = 0;
    for (double each : tensor.data) largest = std::max(largest, std::fabs(each));
    for (int64_t i = 0; i < tensor.count(); ++i) {
      ASSERT_NEAR(got.at(name)[i], tensor[i], tolerance * largest) << name << " at " << i;
    }
  }
}

}  // namespace sigma1
