// Training in several ranks on one GPU, and one rank that talks to itself as if it were several.
#include <gtest/gtest.h>

#include <mutex>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/cuda/rank_link.cuh"
#include "tests/base/thread_ranks.h"
#include "tests/gpu/session_case.h"

namespace sigma1 {
namespace {

using Tensors = std::vector<std::vector<std::byte>>;

struct Trained {
  std::vector<double> losses;
  std::vector<Tensors> weights;  // by rank
};

class CudaRanks : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }

  static Tensors weights_of(const Session& session) {
    Tensors all;
    for (const std::string& name : session.store().names()) {
      if (name.ends_with("weight")) all.push_back(session.store().read_bytes(name));
    }
    return all;
  }

  Trained train(int count, const TrainConfig& config, int steps = 20) const {
    Trained result;
    result.weights.resize(static_cast<size_t>(count));
    run_as_ranks(count, [&](int rank) {
      Session session(config, corpus, cuda_device());
      std::vector<double> found = losses_ahead(session, steps);
      session.share_weights();
      result.weights[static_cast<size_t>(rank)] = weights_of(session);
      if (rank == 0) result.losses = found;
    });
    return result;
  }

  const Corpus corpus = random_corpus(60, 4000, 3);
};

TEST_F(CudaRanks, TwoTrainAsOneThatAccumulates) {
  for (auto [precision, bound] : {std::pair{"fp32", 1e-4}, {"fp16", 2e-2}, {"fp8", 3e-2}}) {
    SCOPED_TRACE(precision);
    TrainConfig config = small_config("attention", precision);
    Trained two = train(2, config);
    config.accumulate = 2;
    Trained one = train(1, config);
    ASSERT_EQ(two.losses.size(), one.losses.size());
    for (size_t i = 0; i < one.losses.size(); ++i) {
      EXPECT_NEAR(two.losses[i], one.losses[i], bound) << "step " << i;
    }
    EXPECT_TRUE(two.weights[0] == two.weights[1]);
  }
}

TEST_F(CudaRanks, HaveTheSameBitsEveryTimeWithAnyBucketsAndOwners) {
  TrainConfig config = small_config("attention", "fp16");
  config.reduce = "bf16";
  Trained first = train(3, config), again = train(3, config);
  EXPECT_EQ(again.losses, first.losses);
  for (const Tensors& each : again.weights) EXPECT_TRUE(each == first.weights[0]);
  config.bucket = 0x1p-8;  // 4 KB
  Trained small_buckets = train(3, config);
  EXPECT_EQ(small_buckets.losses, first.losses);
  // Owners keep sums in fp32, others get them in the format of their way.
  config.reduce = "fp32";
  Trained whole = train(3, config);
  config.shard = "optimiser";
  Trained shared = train(3, config);
  EXPECT_EQ(shared.losses, whole.losses);
  for (const Tensors& each : shared.weights) EXPECT_TRUE(each == whole.weights[0]);
}

TEST_F(CudaRanks, HandOnCopiesOfWeightsWithTheSameBits) {
  TrainConfig config = small_config("attention", "fp8");
  Trained whole = train(2, config);
  config.shard = "optimiser";
  for (const char* gather : {"narrow", "stored"}) {
    config.gather = gather;
    Trained shared = train(2, config);
    EXPECT_EQ(shared.losses, whole.losses) << gather;
    for (const Tensors& each : shared.weights) EXPECT_TRUE(each == whole.weights[0]) << gather;
  }
}

// Maxima of delayed casts are of all ranks.
TEST_F(CudaRanks, CastAlike) {
  TrainConfig config = small_config("attention", "fp8");
  config.method = "per-tensor=delayed";
  Trained trained = train(2, config, 6);
  EXPECT_TRUE(trained.weights[0] == trained.weights[1]);
}

TEST_F(CudaRanks, StopTogetherBeforeTheStepThatIsNotFinite) {
  TrainConfig wild = small_config("attention", "fp16");
  wild.rate = 1e30;
  wild.shard = "optimiser";
  std::mutex mutex;
  std::vector<std::string> told;
  run_as_ranks(2, [&](int) {
    Session session(wild, corpus, cuda_device());
    try {
      losses_ahead(session, 20);
    } catch (const NotFinite& error) {
      std::lock_guard lock(mutex);
      told.emplace_back(error.what());
    }
  });
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0], told[1]);
}

// Through NCCL where it is built in, beside backward and within the graph; else through the host.
TEST_F(CudaRanks, OneThatMeetsItselfHasTheSameBits) {
  for (const char* context : {"attention", "rnn"}) {
    for (int64_t accumulate : {1, 2}) {
      for (double bucket : {32.0, 0x1p-6}) {
        SCOPED_TRACE(fmt::format("{} {} {}", context, accumulate, bucket));
        TrainConfig config = small_config(context, "fp16");
        config.accumulate = accumulate;
        config.bucket = bucket;
        Session alone(config, corpus, cuda_device());
        config.collectives = "always";
        Session meets(config, corpus, cuda_device());
        EXPECT_EQ(losses_ahead(meets, 20), losses_ahead(alone, 20));
        EXPECT_TRUE(tensors_of(meets) == tensors_of(alone));
        EXPECT_EQ(cuda::rank_link().needs_no_host(), has_nccl());
      }
    }
  }
}

TEST_F(CudaRanks, OneThatMeetsItselfStopsWhereItIsNotFinite) {
  TrainConfig wild = small_config("attention", "fp16");
  wild.rate = 1e30;
  auto told = [&] {
    Session session(wild, corpus, cuda_device());
    try {
      losses_ahead(session, 20);
    } catch (const NotFinite& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  std::string alone = told();
  wild.collectives = "always";
  EXPECT_EQ(told(), alone);
  EXPECT_NE(alone, "nothing");
}

}  // namespace
}  // namespace sigma1
