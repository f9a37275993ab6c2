// Headers of this folder as one text, for kernels that are compiled at run time.
#pragma once

#include <string_view>

namespace sigma1 {

extern const std::string_view kClusterText;

}  // namespace sigma1
