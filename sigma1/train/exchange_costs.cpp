#include "sigma1/train/exchange_costs.h"

#include "sigma1/train/rank_exchange.h"

namespace sigma1 {

std::vector<CollectiveCost> exchange_costs(const TrainConfig& config, const Graph& model) {
  if (config.world == 1) return {};
  std::vector<CollectiveCost> costs = collective_costs(*gradient_sum_graph(config, model).graph);
  if (config.shard == "none") return costs;
  for (CollectiveCost& each : collective_costs(*weight_gather_graph(config, model).graph)) {
    costs.push_back(std::move(each));
  }
  return costs;
}

}  // namespace sigma1
