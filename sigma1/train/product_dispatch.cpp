#include "sigma1/train/product_dispatch.h"

#include <algorithm>
#include <span>

#include "sigma1/base/error.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {
namespace {

bool multiplies(const Node& node) {
  std::vector<TensorType> types = node.input_types();
  for (size_t i = 0; i < types.size(); ++i) {
    if (node.op->multiplies && node.op->multiplies({types, node.attributes}, i)) return true;
  }
  return false;
}

}  // namespace

void expect_known_products(const TrainConfig& config) {
  if (config.matmul_overrides.empty()) return;
  // Those of the precision itself are for all models, and come first.
  size_t given = Precision::named(config.precision).overrides.size();
  Precision precision = config.resolved_precision();
  std::shared_ptr<Graph> model = scaled_model(config, {});
  std::vector<std::string> products;
  for (const Node& node : model->nodes()) {
    if (multiplies(node)) products.push_back(node.name);
  }
  for (const Precision::Override& each : std::span(precision.overrides).subspan(given)) {
    auto is_named = [&](const std::string& product) { return each.names(product); };
    if (std::ranges::any_of(products, is_named)) continue;
    constexpr size_t kShown = 6;  // a layer's
    std::span shown = std::span(products).first(std::min(kShown, products.size()));
    throw Error(
        "matmul-overrides: expected names or patterns of products, got '{}'; of {} the first are "
        "{}",
        each.pattern, products.size(), fmt::join(shown, ", "));
  }
}

std::vector<Dispatched> products_left_in_16_bits(const TrainConfig& config, const Device& device) {
  if (config.dispatch == "none") return {};
  Precision precision = config.resolved_precision();
  std::shared_ptr<Graph> model = scaled_model(config, {});
  std::vector<Dispatched> products;
  for (int i = 0; i < model->size(); ++i) {
    const Node& node = model->node(i);
    if (!multiplies(node) || precision.matmul_format(node.name) != "fp8") continue;
    std::string because = device.why_not_8_bits(*model, i);
    if (!because.empty()) products.push_back({node.name, std::move(because)});
  }
  return products;
}

void leave_in_16_bits(TrainConfig& config, const std::vector<Dispatched>& products) {
  for (const Dispatched& each : products) {
    if (!config.matmul_overrides.empty()) config.matmul_overrides += ",";
    config.matmul_overrides += each.product + "=stored";
  }
}

std::string to_string(const std::vector<Dispatched>& products) {
  std::vector<std::string> reasons;
  for (const Dispatched& each : products) {
    if (std::ranges::find(reasons, each.because) == reasons.end()) reasons.push_back(each.because);
  }
  std::string text;
  for (const std::string& reason : reasons) {
    auto is_of = [&](const Dispatched& each) { return each.because == reason; };
    text += fmt::format("{}{} products read 16 bits instead of 8, from {}: {}",
                        text.empty() ? "" : "; ", std::ranges::count_if(products, is_of),
                        std::ranges::find_if(products, is_of)->product, reason);
  }
  return text;
}

}  // namespace sigma1
