// Sums between ranks: of which numbers, in which order and format, and the same bits everywhere.
#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/backend/cpu/kernel.h"
#include "sigma1/base/rng.h"
#include "sigma1/numerics/quantize.h"
#include "sigma1/passes/place_collectives.h"
#include "sigma1/runtime/program.h"
#include "tests/base/thread_ranks.h"

namespace sigma1 {
namespace {

constexpr int kRanks = 3;
const Shape kShapes[] = {{5, 7}, {1}, {3000, 7}};
const std::vector<int64_t> kOwners{2, 0, 1};

std::string name_of(size_t i) { return "tensor" + std::to_string(i); }

std::vector<float> numbers(size_t tensor, int rank) {
  RandomStream random(7, name_of(tensor), static_cast<uint64_t>(rank));
  std::vector<float> values(static_cast<size_t>(element_count(kShapes[tensor])));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(random.bits(i)) * 0x1p-31F - 1;
  }
  return values;
}

std::shared_ptr<Graph> stored_tensors() {
  auto graph = std::make_shared<Graph>();
  for (size_t i = 0; i < std::size(kShapes); ++i) {
    graph->mark_output(name_of(i), graph->input(name_of(i), {kShapes[i]}, false));
  }
  return graph;
}

// What each rank has of each tensor afterwards.
using Results = std::vector<std::vector<std::vector<float>>>;
Results run(const std::function<void(Graph&)>& place) {
  Results results(kRanks);
  run_as_ranks(kRanks, [&](int rank) {
    auto graph = stored_tensors();
    place(*graph);
    Store store;
    std::map<std::string, std::string> stored;
    for (const auto& [name, value] : graph->outputs()) stored[name] = name;
    Program program(graph, store, stored);
    for (size_t i = 0; i < std::size(kShapes); ++i) store.write(name_of(i), numbers(i, rank));
    program.run(0);
    for (size_t i = 0; i < std::size(kShapes); ++i) {
      results[static_cast<size_t>(rank)].push_back(store.read(name_of(i)));
    }
  });
  return results;
}

float rounded(float x, const std::string& format) {
  return static_cast<float>(quantize(x, Cast{find_format(format).format}));
}

std::vector<float> sum_in_order(size_t tensor, const std::string& format) {
  std::vector<float> sum(static_cast<size_t>(element_count(kShapes[tensor])), 0.0F);
  for (int rank = 0; rank < kRanks; ++rank) {
    std::vector<float> own = numbers(tensor, rank);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += rounded(own[i], format);
  }
  return sum;
}

TEST(Collectives, AllReduceGivesEveryRankTheSumInTheirOrder) {
  for (const char* format : {"fp32", "bf16", "fp16"}) {
    for (int64_t bucket : {int64_t{1}, int64_t{1} << 30}) {
      SCOPED_TRACE(std::string(format) + " " + std::to_string(bucket));
      Results got = run([&](Graph& graph) {
        sum_outputs(graph, {.world = kRanks, .format = format, .bucket_bytes = bucket});
      });
      for (size_t i = 0; i < std::size(kShapes); ++i) {
        std::vector<float> want = sum_in_order(i, format);
        for (float& each : want) each = rounded(each, format);
        for (const auto& of_rank : got) EXPECT_TRUE(of_rank[i] == want);
      }
    }
  }
}

TEST(Collectives, ReduceScatterGivesTheOwnerTheSum) {
  Results got =
      run([&](Graph& graph) { sum_outputs(graph, {.world = kRanks, .format = "bf16"}, kOwners); });
  for (size_t i = 0; i < std::size(kShapes); ++i) {
    for (int rank = 0; rank < kRanks; ++rank) {
      bool owns = kOwners[i] == rank;
      EXPECT_TRUE(got[static_cast<size_t>(rank)][i] ==
                  (owns ? sum_in_order(i, "bf16") : numbers(i, rank)));
    }
  }
}

TEST(Collectives, AllGatherGivesEveryRankWhatTheOwnerHas) {
  Results got = run([&](Graph& graph) { gather_outputs(graph, {.world = kRanks}, kOwners); });
  for (size_t i = 0; i < std::size(kShapes); ++i) {
    std::vector<float> want = numbers(i, static_cast<int>(kOwners[i]));
    for (const auto& of_rank : got) EXPECT_TRUE(of_rank[i] == want);
  }
}

}  // namespace
}  // namespace sigma1
