// How a diagnosis writes its numbers and names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sigma1/runtime/probe.h"

namespace sigma1 {

// "2^-19.3"; "0" for none.
std::string power_of_two(double value);
// "1 tensor", "2 tensors"
std::string counted(int64_t count, std::string_view one);
// Of a share: "2.1 %", and without the sign.
std::string percent(double share);
std::string percent_digits(double share);
// "3 activation gradients"
std::string role_words(TensorRole role, int64_t count);
std::string upper(std::string_view text);
// "a, b and c"
std::string joined(const std::vector<std::string>& parts);
// How a method begins a sentence: "Loss scaling by 2048".
std::string method_title(std::string_view method);

}  // namespace sigma1
