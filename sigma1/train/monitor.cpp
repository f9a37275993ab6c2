#include "sigma1/train/monitor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

std::string key(std::string_view kind, std::string_view role, std::string_view tensor) {
  return fmt::format("{} {} {}", kind, role, tensor);
}

std::string percent(double share) { return fmt::format("{:.3g} %", 100 * share); }

RunEvent tensor_event(int64_t step, std::string kind, const TensorScale& tensor, double share) {
  return {step,          std::move(kind), tensor.name, std::string(to_string(tensor.role)),
          tensor.format, share,           ""};
}

// "the gradient of layer0/ffn/up": the roles' own names are for programs.
std::string in_words(const TensorScale& tensor) {
  const char* what = tensor.role == TensorRole::activation ? "activation"
                     : tensor.role == TensorRole::weight   ? "weight"
                                                           : "gradient of";
  return fmt::format("the {} {}", what, tensor.name);
}

// What gives a tensor a wider range: other products where it is cast for them, else other storage.
std::string more_range(const TensorScale& tensor) {
  if (!tensor.products.empty()) {
    return fmt::format("--set matmul-overrides={}=fp16 gives it more range",
                       fmt::join(tensor.products, "=fp16,"));
  }
  bool is_widest =
      find_format(tensor.format).format.exponent_bits >= find_format("bf16").format.exponent_bits;
  if (is_widest) return "no format has more range, but a smaller rate may help";
  const char* key = tensor.role == TensorRole::weight       ? "weights"
                    : tensor.role == TensorRole::activation ? "activations"
                                                            : "gradients";
  return fmt::format("--set {}=bf16 gives it more range", key);
}

}  // namespace

std::string event_json(const RunEvent& event) {
  Json json{{"step", event.step}, {"kind", event.kind}};
  if (!event.tensor.empty()) {
    json["tensor"] = event.tensor;
    json["role"] = event.role;
    json["format"] = event.format;
    json["share"] = event.share;
  }
  json["text"] = event.text;
  return json.dump();
}

void Monitor::remember(std::string_view line) {
  Json json = Json::parse(line);
  told_.insert(key(json.value("kind", ""), json.value("role", ""), json.value("tensor", "")));
}

std::string Monitor::line(int64_t step, std::span<const TensorScale> tensors) {
  Json list = Json::array();
  for (const TensorScale& each : tensors) {
    if (each.lost() == 0) continue;
    list.push_back({{"name", each.name},
                    {"role", to_string(each.role)},
                    {"format", each.format},
                    {"saturated", each.saturated()},
                    {"underflow", each.underflow()}});
  }
  return Json{{"step", step}, {"tensors", std::move(list)}}.dump();
}

std::vector<RunEvent> Monitor::check(int64_t step, std::span<const TensorScale> tensors) {
  std::vector<RunEvent> events;
  auto tell = [&](RunEvent event) {
    if (told_.insert(key(event.kind, event.role, event.tensor)).second)
      events.push_back(std::move(event));
  };
  for (const TensorScale& each : tensors) {
    if (each.saturated() > config_.saturation_limit) tell(saturation(step, each));
    if (each.underflow() > config_.underflow_limit) tell(underflow(step, each));
  }
  return events;
}

RunEvent Monitor::saturation(int64_t step, const TensorScale& tensor) const {
  RunEvent event = tensor_event(step, "saturation", tensor, tensor.saturated());
  bool could_demote = !config_.demote && !demotions({&tensor, 1}).empty();
  event.text = fmt::format(
      "{} is too large for {}: {} of its numbers, up to {:.3g}, and {} ends at "
      "{:.3g}; {}{}",
      in_words(tensor), tensor.format, percent(event.share), tensor.stats.abs_max, tensor.format,
      find_format(tensor.format).format.max(), more_range(tensor),
      could_demote ? ", or --demote does it as needed" : "");
  return event;
}

RunEvent Monitor::underflow(int64_t step, const TensorScale& tensor) const {
  RunEvent event = tensor_event(step, "underflow", tensor, tensor.underflow());
  bool unit = Method::parse(config_.method).kind == Method::Kind::unit;
  event.text = fmt::format(
      "{} is too small for {}: {} of its numbers become zero, its rms is "
      "{:.3g}, and {} ends at {:.3g}; {}{}",
      in_words(tensor), tensor.format, percent(event.share), tensor.stats.rms(), tensor.format,
      find_format(tensor.format).format.min_subnormal(), unit ? "" : "--method unit mends it, or ",
      more_range(tensor));
  return event;
}

std::vector<Monitor::Demotion> Monitor::demotions(std::span<const TensorScale> tensors) const {
  std::vector<Demotion> found;
  for (const TensorScale& each : tensors) {
    if (each.saturated() <= config_.saturation_limit) continue;
    if (find_format(each.format).format.bits() > 8) continue;
    for (const std::string& product : each.products) {
      bool is_new = std::ranges::none_of(
          found, [&](const Demotion& other) { return other.product == product; });
      if (is_new) found.push_back({product, &each});
    }
  }
  return found;
}

RunEvent Monitor::event_of(int64_t step, const Demotion& demotion) {
  const TensorScale& because = *demotion.because;
  RunEvent event = tensor_event(step, "demotion", because, because.saturated());
  event.text = fmt::format("{} multiplies in fp16 from here on, because {} saturates in {}",
                           demotion.product, in_words(because), because.format);
  return event;
}

}  // namespace sigma1
