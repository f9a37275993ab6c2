#include "sigma1/graph/storage.h"

namespace sigma1 {

Cast storage(const Node& node, size_t output) {
  static const Cast fp32{find_format("fp32").format, Rounding::nearest_even, Overflow::infinity};
  return node.storage.empty() ? fp32 : node.storage[output];
}

}  // namespace sigma1
