#include "sigma1/report/cluster_plan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sigma1/train/exchange_costs.h"
#include "sigma1/train/rank_exchange.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {
namespace {

// The largest rank's part of all numbers.
double largest_share(const TrainConfig& config, const Graph& model) {
  std::vector<double> owned(static_cast<size_t>(config.world), 0.0);
  Owners owners = owners_of(config, model);
  if (owners.empty()) return 1;
  double all = 0;
  for (Value parameter : model.parameters()) {
    auto count = static_cast<double>(parameter.type().count());
    owned[static_cast<size_t>(owners.at(model.node(parameter.node).name))] += count;
    all += count;
  }
  return std::ranges::max(owned) / all;
}

// Every rank to every other, each tensor at its owner: as the collectives say.
void count_direct(const std::vector<CollectiveCost>& costs, int64_t node, PlanRow& row) {
  double bytes = 0;
  for (const CollectiveCost& each : costs) {
    bytes += static_cast<double>(std::max(each.most_sent, each.most_received));
  }
  auto others = static_cast<double>(row.gpus - 1);
  row.far_bytes = bytes * static_cast<double>(row.gpus - std::min(node, row.gpus)) / others;
  row.near_bytes = bytes - row.far_bytes;
}

// Sums within a node, each GPU an equal share; those over the nodes; and back.
void count_by_nodes(const std::vector<CollectiveCost>& costs, int64_t node, PlanRow& row) {
  double bytes = 0;
  for (const CollectiveCost& each : costs) {
    bytes += static_cast<double>((each.op == "all_reduce" ? 2 : 1) * each.bytes);
  }
  auto in_node = static_cast<double>(std::min(node, row.gpus));
  double nodes = static_cast<double>(row.gpus) / in_node;
  row.near_bytes = bytes * (in_node - 1) / in_node;
  row.far_bytes = bytes / in_node * (nodes - 1) / nodes;
}

void exchange(const PlanInput& input, const std::vector<CollectiveCost>& costs, PlanRow& row) {
  const Cluster& cluster = input.cluster;
  if (row.gpus == 1) return;
  (input.by_nodes ? count_by_nodes : count_direct)(costs, cluster.node, row);
  double near = row.near_bytes / cluster.near, far = row.far_bytes / cluster.far;
  // Node by node one waits for the other; else both links are busy at once.
  row.exchange_seconds = input.by_nodes ? near + far : std::max(near, far);
}

}  // namespace

PlanRow plan_ranks(const PlanInput& input, const MemoryTable& alone, int64_t gpus) {
  PlanRow row{.gpus = gpus};
  TrainConfig config = input.config;
  config.world = config.ranks = gpus;
  std::shared_ptr<Graph> model = scaled_model(config, {});
  auto batch = static_cast<double>(config.size.batch);
  double own = input.sequences > 0
                   ? static_cast<double>(input.sequences) / (batch * static_cast<double>(gpus))
                   : static_cast<double>(config.accumulate);
  row.batches = static_cast<int64_t>(std::ceil(own));
  row.tokens = own * batch * static_cast<double>(config.size.time * gpus);
  double share = largest_share(config, *model);
  row.memory = static_cast<double>(alone.arena);
  for (const MemoryShare& each : alone.shares) {
    if (!each.op.empty()) continue;  // in the arena
    row.memory += static_cast<double>(each.bytes) * (each.kind == "states" ? share : 1);
  }
  row.fits = row.memory <= input.cluster.memory;
  exchange(input, exchange_costs(config), row);
  double hidden = input.overlaps ? kBackwardShare * input.seconds : 0;
  row.exposed_seconds = std::max(0.0, row.exchange_seconds - hidden);
  row.step_seconds = static_cast<double>(row.batches) * input.seconds + row.exposed_seconds;
  row.efficiency = own * input.seconds / row.step_seconds;
  return row;
}

}  // namespace sigma1
