#include "sigma1/train/exchange_costs.h"

#include "sigma1/train/rank_exchange.h"

namespace sigma1 {

std::vector<CollectiveCost> exchange_costs(const TrainConfig& config) {
  if (config.world == 1) return {};
  std::vector<CollectiveCost> costs =
      collective_costs(*gradient_sum_graph(config, *scaled_model(config, {})).graph);
  if (config.shard == "none") return costs;
  StepGraph gradients = gradient_graph(config, {}, cpu_device());
  std::vector<WeightCopy> copies = keep_weight_casts(*gradients.graph);
  StepGraph gathers = weight_gather_graph(config, *gradients.graph, copies);
  for (CollectiveCost& each : collective_costs(*gathers.graph)) costs.push_back(std::move(each));
  return costs;
}

}  // namespace sigma1
