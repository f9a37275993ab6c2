#include "sigma1/report/rank_traffic.h"

#include <gtest/gtest.h>

#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

class RankTrafficTest : public TemporaryFolderTest {
 protected:
  static TrainConfig config(int64_t ranks) {
    TrainConfig config;
    config.set("depth", "1");
    config.set("width", "16");
    config.set("batch", "2");
    config.set("time", "16");
    config.set("reduce", "fp16");
    config.size.vocabulary = 20;
    config.ranks = ranks;
    return config;
  }
};

TEST_F(RankTrafficTest, OneRankSendsNothing) {
  EXPECT_EQ(rank_traffic(config(0)).ranks, 1);
  EXPECT_EQ(rank_traffic(config(1)).most_sent, 0);
}

TEST_F(RankTrafficTest, CountsWhatTravels) {
  RankTraffic whole = rank_traffic(config(4));
  EXPECT_EQ(whole.weight_bytes, 0);
  EXPECT_EQ(whole.most_sent, 2 * (whole.gradient_bytes - whole.gradient_bytes / 4));
  TrainConfig shared = config(4);
  shared.shard = "optimiser";
  RankTraffic traffic = rank_traffic(shared);
  EXPECT_EQ(traffic.gradient_bytes, whole.gradient_bytes);
  EXPECT_GT(traffic.weight_bytes, 0);
}

TEST_F(RankTrafficTest, WeightsTravelAsProductsReadThem) {
  auto weight_bytes = [&](const char* precision, const char* gather) {
    TrainConfig shared = config(4);
    shared.shard = "optimiser";
    shared.precision = precision;
    shared.gather = gather;
    return rank_traffic(shared).weight_bytes;
  };
  EXPECT_EQ(weight_bytes("fp16", "narrow"), weight_bytes("fp16", "stored"));
  EXPECT_EQ(weight_bytes("fp8", "stored"), weight_bytes("fp16", "stored"));
  EXPECT_LT(weight_bytes("fp8", "narrow"), weight_bytes("fp8", "stored"));
}

// The run was begun by two ranks that accumulate 2, and resumed by four: a step has 4 batches.
TEST_F(RankTrafficTest, ARunSaysWhatItMeasured) {
  write("machine.json", "{\"ranks\":4}\n");
  write("metrics.jsonl",
        "{\"step\":1,\"loss\":4,\"tokens_per_s\":128,\"exchange_s\":0.5}\n"
        "{\"step\":1,\"valid_loss\":4}\n"
        "{\"step\":2,\"loss\":4,\"tokens_per_s\":256,\"exchange_s\":0.125}\n"
        "{\"step\":3,\"loss\":4,\"tokens_per_s\":512,\"exchange_s\":0.0625}\n");
  TrainConfig begun = config(2);
  begun.accumulate = 2;
  RankTraffic traffic = rank_traffic(begun, folder_);
  EXPECT_EQ(traffic.ranks, 4);
  EXPECT_DOUBLE_EQ(traffic.exchange_seconds, 0.6875 / 3);
  EXPECT_DOUBLE_EQ(traffic.step_seconds, 1.75 / 3);
  EXPECT_DOUBLE_EQ(traffic.share(), 0.6875 / 1.75);
}

}  // namespace
}  // namespace sigma1
