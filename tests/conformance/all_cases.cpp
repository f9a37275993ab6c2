#include <cctype>

#include "tests/conformance/case.h"

namespace sigma1 {

const std::vector<ConformanceCase>& all_cases() {
  static const std::vector<ConformanceCase> cases = [] {
    std::vector<ConformanceCase> all;
    for (auto family : {attention_cases, cast_cases, collective_cases, conv_cases, embedding_cases,
                        linear_cases, norm_cases, pointwise_cases, positions_cases, recurrent_cases,
                        reduce_cases, residual_cases, shape_cases, softmax_cases, update_cases}) {
      for (ConformanceCase& each : family()) all.push_back(std::move(each));
    }
    return all;
  }();
  return cases;
}

std::string case_name(const ConformanceCase& c, size_t number) {
  std::string name = std::string(c.op->name) + "_" + c.label + "_" + std::to_string(number);
  for (char& letter : name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) letter = '_';
  }
  return name;
}

}  // namespace sigma1
