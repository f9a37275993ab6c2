#include "sigma1/train/scale_log.h"

#include <nlohmann/json.hpp>

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kExponentBias = 127;  // of fp32, by whose exponents binades are numbered

void add_histogram(Json& json, const TensorStats& stats) {
  size_t first = 0, end = stats.binades.size();
  while (first < end && stats.binades[first] == 0) ++first;
  while (end > first && stats.binades[end - 1] == 0) --end;
  json["first_exponent"] = static_cast<int>(first) - kExponentBias;
  json["histogram"] = std::vector<int64_t>(stats.binades.begin() + static_cast<int64_t>(first),
                                           stats.binades.begin() + static_cast<int64_t>(end));
}

Json to_json(const TensorScale& tensor, HistogramJson histogram) {
  Json json{{"name", tensor.name},
            {"role", to_string(tensor.role)},
            {"format", tensor.format},
            {"count", tensor.stats.count},
            {"mean", tensor.stats.mean()},
            {"std", tensor.stats.std_dev()},
            {"rms", tensor.stats.rms()},
            {"abs_max", tensor.stats.abs_max},
            {"abs_min", tensor.stats.abs_min},
            {"zero", tensor.zero()},
            {"subnormal", tensor.subnormal()},
            {"saturated", tensor.saturated()},
            {"nonfinite", tensor.nonfinite()},
            {"lost", tensor.lost()}};
  if (histogram == HistogramJson::with) add_histogram(json, tensor.stats);
  return json;
}

}  // namespace

std::string scale_json(const TensorScale& tensor, HistogramJson histogram) {
  return to_json(tensor, histogram).dump();
}

std::string scales_line(int64_t step, std::span<const TensorScale> tensors) {
  Json list = Json::array();
  for (const TensorScale& tensor : tensors) list.push_back(to_json(tensor, HistogramJson::with));
  return Json{{"step", step}, {"tensors", std::move(list)}}.dump();
}

}  // namespace sigma1
