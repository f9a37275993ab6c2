// Collectives of ranks that share one GPU, bit for bit what they are on the CPU: as they are, and
// recorded.
#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/rank_link.cuh"
#include "sigma1/base/rng.h"
#include "sigma1/passes/place_collectives.h"
#include "sigma1/passes/precision.h"
#include "sigma1/runtime/program.h"
#include "tests/base/thread_ranks.h"

namespace sigma1 {
namespace {

// Of odd sizes, of fewer numbers than ranks, and of several blocks.
const Shape kShapes[] = {{5, 7}, {1}, {3000, 7}, {64, 33}};
const char* const kFormats[] = {"fp32", "fp16", "e4m3", "bf16"};
constexpr int kRuns = 3;  // plain, recorded, and from the record

std::string name_of(size_t i) { return "tensor" + std::to_string(i); }

std::vector<float> numbers(size_t tensor, int rank, int run) {
  RandomStream random(7, name_of(tensor), static_cast<uint64_t>(16 * run + rank));
  std::vector<float> values(static_cast<size_t>(element_count(kShapes[tensor])));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(random.bits(i)) * 0x1p-31F - 1;
  }
  return values;
}

using Placing = std::function<void(Graph&)>;
// By run, rank and tensor.
using Results = std::vector<std::vector<std::vector<std::vector<std::byte>>>>;

Results run(int world, const Placing& place, bool on_gpu) {
  std::vector<std::vector<std::byte>> of_rank(std::size(kShapes));
  Results results(kRuns, std::vector(static_cast<size_t>(world), of_rank));
  run_as_ranks(world, [&](int rank) {
    const Device& device = on_gpu ? cuda_device() : cpu_device();
    auto graph = std::make_shared<Graph>();
    std::map<std::string, std::string> stored;
    for (size_t i = 0; i < std::size(kShapes); ++i) {
      Value value = graph->input(name_of(i), {kShapes[i]}, false);
      graph->node(value.node).storage = {storage_cast(kFormats[i])};
      graph->mark_output(name_of(i), value);
      stored[name_of(i)] = name_of(i);
    }
    place(*graph);
    Store store(device);
    Program program(graph, store, stored);
    std::unique_ptr<Recording> work = device.record([&] { program.launch(); });
    for (int each = 0; each < kRuns; ++each) {
      for (size_t i = 0; i < std::size(kShapes); ++i) {
        store.write(name_of(i), numbers(i, rank, each));
      }
      work->run();
      auto& found = results[static_cast<size_t>(each)][static_cast<size_t>(rank)];
      for (size_t i = 0; i < std::size(kShapes); ++i) found[i] = store.read_bytes(name_of(i));
    }
    if (!on_gpu) return;
    bool by_nccl = world == 1 && has_nccl();  // which gives a GPU to one rank only
    EXPECT_EQ(cuda::rank_link().needs_no_host(), by_nccl);
  });
  return results;
}

class CudaCollectives : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
  static void expect_cpu(int world, const Placing& place) {
    EXPECT_TRUE(run(world, place, true) == run(world, place, false)) << world << " ranks";
  }
};

TEST_F(CudaCollectives, SumsHaveTheBitsOfTheCpu) {
  for (const char* format : {"fp32", "bf16", "fp16"}) {
    for (int64_t bucket : {int64_t{1}, int64_t{1} << 30}) {
      for (int world : {1, 2, 3, 5}) {
        SCOPED_TRACE(std::string(format) + " " + std::to_string(bucket));
        expect_cpu(world, [&](Graph& graph) {
          sum_outputs(graph, {.world = world, .format = format, .bucket_bytes = bucket});
        });
      }
    }
  }
}

// A rank may own nothing, or several.
TEST_F(CudaCollectives, OwnersHaveTheBitsOfTheCpu) {
  for (const std::vector<int64_t>& owners :
       {std::vector<int64_t>{2, 0, 1, 2}, {2, 2, 1, 2}, {0, 0, 0, 0}}) {
    expect_cpu(3,
               [&](Graph& graph) { sum_outputs(graph, {.world = 3, .format = "bf16"}, owners); });
    expect_cpu(3, [&](Graph& graph) { gather_outputs(graph, {.world = 3}, owners); });
  }
}

TEST_F(CudaCollectives, TheLargestIsSharedAndRecorded) {
  run_as_ranks(3, [&](int rank) {
    const Device& device = cuda_device();
    DeviceBytes memory(device, 16), room(device, 3 * 16);
    std::span words(reinterpret_cast<uint32_t*>(memory.data()), 4);
    std::unique_ptr<Recording> work = device.record([&] {
      device.share_largest(words, {room.data(), static_cast<size_t>(room.size())});
    });
    for (uint32_t each = 0; each < uint32_t{kRuns}; ++each) {
      std::vector<uint32_t> own(4, each), found(4);
      own[static_cast<size_t>(rank)] = 100 + each;
      device.write(memory.data(), own.data(), 16);
      work->run();
      device.read(found.data(), memory.data(), 16);
      EXPECT_EQ(found, (std::vector<uint32_t>{100 + each, 100 + each, 100 + each, each}));
    }
  });
}

// What is before and after the host's part is run every time, and in its order; a step that is not
// finite is so for all, whoever found it.
TEST_F(CudaCollectives, ARecordGoesThroughTheHostInItsOrder) {
  run_as_ranks(2, [&](int rank) {
    const Device& device = cuda_device();
    Store store(device);
    auto graph = std::make_shared<Graph>();
    graph->mark_output("y", graph->input("x", {{4}}, false));
    sum_outputs(*graph, {.world = 2});
    Program sums(graph, store, {{"y", "y"}});
    DeviceBytes numbers(device, 16), room(device, 16);
    auto* step = reinterpret_cast<uint64_t*>(numbers.data());
    uint64_t* bad_step = step + 1;
    std::vector<Buffer> checked{store.at("x")};
    std::unique_ptr<Recording> work = device.record([&] {
      device.when_finite(checked, step, bad_step, {});
      device.share_largest({reinterpret_cast<uint32_t*>(bad_step), 2},
                           {room.data(), static_cast<size_t>(room.size())});
      sums.launch();
      device.join();
    });
    for (uint64_t each = 0; each < 5; ++each) {
      std::vector<uint64_t> own{each, 0}, found(2);
      device.write(numbers.data(), own.data(), 16);
      bool bad = each >= 3 && rank == 1;
      store.write("x", std::vector<float>(4, bad ? INFINITY : static_cast<float>(each + 1)));
      work->run();
      device.read(found.data(), numbers.data(), 16);
      EXPECT_EQ(found[1], each >= 3 ? each + 1 : 0);
      if (each >= 3) continue;
      EXPECT_EQ(store.read("y"), std::vector<float>(4, 2 * static_cast<float>(each + 1)));
    }
  });
}

}  // namespace
}  // namespace sigma1
