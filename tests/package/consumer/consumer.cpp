// Uses the installed headers and library only.
#include <fmt/format.h>
#include <sigma1/numerics/convert.h>

#include <vector>

int main() {
  sigma1::Cast cast{sigma1::find_format("fp8_e4m3").format};
  std::vector<float> values{0.1f};
  sigma1::quantize(values, values, cast);
  fmt::print("0.1 is {} in fp8_e4m3\n", values[0]);
}
