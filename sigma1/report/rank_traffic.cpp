#include "sigma1/report/rank_traffic.h"

#include <algorithm>
#include <numeric>

#include "sigma1/ops/collective.h"
#include "sigma1/report/json_lines.h"
#include "sigma1/train/exchange_costs.h"
#include "sigma1/train/metrics.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {
namespace {

double mean(const std::vector<double>& values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

RankTraffic rank_traffic(const TrainConfig& config) {
  RankTraffic traffic{std::max<int64_t>(1, config.ranks), config.reduce, config.shard};
  if (traffic.ranks == 1) return traffic;
  TrainConfig of_all = config;
  of_all.world = traffic.ranks;
  for (const CollectiveCost& cost : exchange_costs(of_all)) {
    (cost.op == all_gather_op.name ? traffic.weight_bytes : traffic.gradient_bytes) += cost.bytes;
    traffic.most_sent += cost.most_sent;
  }
  return traffic;
}

RankTraffic rank_traffic(TrainConfig config, const std::filesystem::path& folder) {
  std::filesystem::path machine = folder / "machine.json", metrics = folder / "metrics.jsonl";
  auto tokens = static_cast<double>(config.size.batch * config.size.time * config.parts());
  if (std::filesystem::exists(machine)) config.ranks = read_json_object(machine).value("ranks", 1);
  RankTraffic traffic = rank_traffic(config);
  if (traffic.ranks == 1 || !std::filesystem::exists(metrics)) return traffic;
  // Means: a median of each would be of different steps, and their share could be above 1.
  traffic.exchange_seconds = mean(read_metric(metrics, "exchange_s").values);
  std::vector<double> seconds;
  for (double rate : read_metric(metrics, "tokens_per_s").values) seconds.push_back(tokens / rate);
  traffic.step_seconds = mean(seconds);
  return traffic;
}

}  // namespace sigma1
