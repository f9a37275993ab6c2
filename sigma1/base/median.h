// The middle of some numbers: what a disturbance of a few of them leaves alone.
#pragma once

#include <algorithm>
#include <vector>

namespace sigma1 {

// Of at least one; of an even count the mean of the middle two.
inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace sigma1
