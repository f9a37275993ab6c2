#include "sigma1/report/rank_traffic.h"

#include <algorithm>

#include "sigma1/ops/collective.h"
#include "sigma1/report/json_lines.h"
#include "sigma1/train/exchange_costs.h"
#include "sigma1/train/metrics.h"
#include "sigma1/train/step_graphs.h"

namespace sigma1 {
namespace {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  auto middle = values.begin() + std::ssize(values) / 2;
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

RankTraffic rank_traffic(const TrainConfig& config) {
  RankTraffic traffic{std::max<int64_t>(1, config.ranks), config.reduce, config.shard};
  if (traffic.ranks == 1) return traffic;
  TrainConfig of_all = config;
  of_all.world = traffic.ranks;
  for (const CollectiveCost& cost : exchange_costs(of_all, *scaled_model(of_all, {}))) {
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
  traffic.exchange_seconds = median(read_metric(metrics, "exchange_s").values);
  double rate = median(read_metric(metrics, "tokens_per_s").values);
  if (rate > 0) traffic.step_seconds = tokens / rate;
  return traffic;
}

}  // namespace sigma1
