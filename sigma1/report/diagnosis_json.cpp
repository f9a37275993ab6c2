#include <nlohmann/json.hpp>

#include "sigma1/report/diagnosis.h"

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

// What is not a number or not finite becomes null.
Json to_object(const TensorGroup& group) {
  return {{"name", group.name},     {"tensors", group.tensors}, {"role", to_string(group.role)},
          {"format", group.format}, {"sigma", group.sigma},     {"lost", group.lost},
          {"why", group.why}};
}

Json to_object(const MethodDiagnosis& method) {
  Json groups = Json::array(), ranges = Json::array();
  for (const TensorGroup& group : method.groups) groups.push_back(to_object(group));
  for (const SigmaRange& range : method.ranges) {
    ranges.push_back({{"role", to_string(range.role)},
                      {"tensors", range.tensors},
                      {"min", range.min},
                      {"median", range.median},
                      {"max", range.max}});
  }
  return {{"method", method.method}, {"tensors", method.tensors},
          {"losing", method.losing}, {"mended", method.mended},
          {"spoilt", method.spoilt}, {"worst", method.worst},
          {"groups", groups},        {"sigma", ranges}};
}

Json to_object(const ScalingCost& cost, double share) {
  return {{"tensors", cost.factors},
          {"multiplications", cost.multiplications},
          {"in_products", cost.in_products},
          {"share_of_products", share},
          {"bytes", cost.bytes}};
}

Json to_object(const StepScalingCost& cost) {
  const PaperEstimate& paper = cost.paper;
  Json folded = to_object(cost.folded, cost.share(cost.folded));
  folded["not_folded"] = cost.folded.passes;
  return {{"product_flops", cost.product_flops},
          {"separate", to_object(cost.separate, cost.share(cost.separate))},
          {"folded", folded},
          {"regular", to_object(cost.regular, cost.share(cost.regular))},
          {"paper",
           {{"by_product_sizes", paper.by_product_sizes},
            {"scaled_ops", paper.scaled_ops},
            {"products", paper.products},
            {"ops_per_matmul", paper.ops_per_matmul()},
            {"hidden_size", paper.hidden_size},
            {"by_hidden_size", paper.by_hidden_size()}}}};
}

Json to_object(const RankTraffic& traffic) {
  Json json{{"ranks", traffic.ranks},
            {"reduce", traffic.reduce},
            {"shard", traffic.shard},
            {"gradient_bytes", traffic.gradient_bytes},
            {"weight_bytes", traffic.weight_bytes},
            {"most_sent", traffic.most_sent}};
  if (traffic.exchange_seconds == 0 || traffic.step_seconds == 0) return json;
  json["exchange_seconds"] = traffic.exchange_seconds;
  json["step_seconds"] = traffic.step_seconds;
  json["share_of_step"] = traffic.share();
  return json;
}

}  // namespace

std::string Diagnosis::to_json() const {
  Json all = Json::array();
  for (const MethodDiagnosis& method : methods) all.push_back(to_object(method));
  Json json{{"precision", precision},
            {"limit", limit},
            {"verdict", verdict()},
            {"methods", all},
            {"products_to_keep", products_to_keep},
            {"setting", setting()},
            {"cost", to_object(cost)}};
  if (traffic.ranks > 1) json["between_ranks"] = to_object(traffic);
  return json.dump(2) + "\n";
}

}  // namespace sigma1
