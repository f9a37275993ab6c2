#include <algorithm>

#include "sigma1/backend/cuda/kernel.cuh"
#include "sigma1/base/error.h"

namespace sigma1::cuda {

std::optional<Type> find_type(const FloatFormat& format) {
  for (auto [name, type] : {std::pair{"fp32", Type::fp32},
                            {"bf16", Type::bf16},
                            {"fp16", Type::fp16},
                            {"e4m3", Type::e4m3},
                            {"e5m2", Type::e5m2}}) {
    if (find_format(name).format == format) return type;
  }
  return std::nullopt;
}

void check(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw Bug("cuda: {}: {}", what, cudaGetErrorString(status));
}

View view_of(const Buffer& buffer, bool any_rounding) {
  View view{buffer.data, Type::fp32, false, buffer.scale, buffer.count()};
  if (buffer.kind == Kind::index) view.type = Type::index;
  if (buffer.codec != nullptr) {
    const FloatFormat& format = buffer.codec->cast().format;
    std::optional<Type> type = find_type(format);
    if (!type) {
      throw Error("cuda: expected fp32, bf16, fp16, e4m3 or e5m2, got {}", format_name(format));
    }
    view.type = *type;
    if (!any_rounding && buffer.codec->cast().rounding != Rounding::nearest_even) {
      throw Error("cuda: this op's results can be rounded to nearest only");
    }
    view.saturates = buffer.codec->cast().overflow == Overflow::saturate;
  }
  return view;
}

int blocks_for(int64_t count) {
  constexpr int64_t kMost = 132 * 16;
  return static_cast<int>(std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, kMost));
}

}  // namespace sigma1::cuda
