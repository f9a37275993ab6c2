#include "sigma1/passes/place_collectives.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "sigma1/ops/collective.h"

namespace sigma1 {
namespace {

struct Bucket {
  std::vector<std::string> names;
  std::vector<Value> values;
  std::vector<int64_t> owners;
};

Cast storage_of(const Graph& graph, Value value) {
  const Node& node = graph.node(value.node);
  if (node.storage.empty()) return {find_format("fp32").format};
  return node.storage[static_cast<size_t>(value.output)];
}

// Neighbours travel together.
std::vector<Bucket> buckets_of(const Graph& graph, const CollectiveOptions& options,
                               std::span<const int64_t> owners) {
  int64_t each = find_format(options.format).format.bytes(), room = 0;
  std::vector<Bucket> buckets;
  for (size_t i = 0; i < graph.outputs().size(); ++i) {
    const auto& [name, value] = graph.outputs()[i];
    int64_t bytes = value.type().count() * each;
    if (buckets.empty() || bytes > room) {
      buckets.emplace_back();
      room = options.bucket_bytes;
    }
    room -= bytes;
    buckets.back().names.push_back(name);
    buckets.back().values.push_back(value);
    if (!owners.empty()) buckets.back().owners.push_back(owners[i]);
  }
  return buckets;
}

void replace_outputs(Graph& graph, const std::vector<Bucket>& buckets,
                     const std::function<std::vector<Value>(const Bucket&)>& collective) {
  Graph::Path path(graph, "ranks");
  for (const Bucket& bucket : buckets) {
    std::vector<Cast> storage;
    for (Value value : bucket.values) storage.push_back(storage_of(graph, value));
    std::vector<Value> results = collective(bucket);
    graph.node(results.front().node).storage = storage;
    for (size_t i = 0; i < results.size(); ++i) graph.replace_output(bucket.names[i], results[i]);
  }
}

}  // namespace

void sum_outputs(Graph& graph, const CollectiveOptions& options, std::span<const int64_t> owners) {
  replace_outputs(graph, buckets_of(graph, options, owners), [&](const Bucket& bucket) {
    return owners.empty()
               ? all_reduce(bucket.values, options.world, options.format)
               : reduce_scatter(bucket.values, options.world, options.format, bucket.owners);
  });
}

void gather_outputs(Graph& graph, const CollectiveOptions& options,
                    std::span<const int64_t> owners) {
  replace_outputs(graph, buckets_of(graph, options, owners), [&](const Bucket& bucket) {
    return all_gather(bucket.values, options.world, bucket.owners);
  });
}

std::vector<int64_t> balanced_owners(std::span<const int64_t> sizes, int64_t world) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return sizes[i]; });
  std::vector<int64_t> load(static_cast<size_t>(world), 0), owners(sizes.size());
  for (size_t i : order) {
    auto least = std::ranges::min_element(load);
    owners[i] = least - load.begin();
    *least += sizes[i];
  }
  return owners;
}

}  // namespace sigma1
