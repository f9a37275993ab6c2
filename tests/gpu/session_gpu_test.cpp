// Training on the GPU against training on the CPU: losses, resume, and what a probe sees.
#include <gtest/gtest.h>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/train/session.h"

namespace sigma1 {
namespace {

class CudaSession : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }

  static TrainConfig config(const std::string& context, const std::string& precision) {
    TrainConfig made;
    made.size.context = context;
    made.size.depth = 2;
    made.size.width = 64;
    made.size.hidden = 128;
    made.size.batch = 4;
    made.size.time = 48;
    made.context = 8;
    made.precision = precision;
    made.steps = 50;
    return made;
  }

  static std::vector<double> losses(Session& session, int steps) {
    std::vector<double> all;
    for (int i = 0; i < steps; ++i) all.push_back(session.train_step().loss);
    return all;
  }

  const Corpus corpus = random_corpus(60, 4000, 3);
};

TEST_F(CudaSession, LearnsAsOnTheCpu) {
  for (const char* context : {"attention", "conv", "rnn"}) {
    for (auto [precision, bound] : {std::pair{"fp32", 1e-4}, {"fp16", 2e-2}, {"fp8", 3e-2}}) {
      SCOPED_TRACE(fmt::format("{} in {}", context, precision));
      Session cpu(config(context, precision), corpus);
      Session gpu(config(context, precision), corpus, cuda_device());
      std::vector<double> want = losses(cpu, 50), got = losses(gpu, 50);
      for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], bound) << "step " << i;
    }
  }
}

TEST_F(CudaSession, GivesTheSameBitsTwice) {
  for (const char* precision : {"fp32", "fp16", "fp8"}) {
    Session first(config("attention", precision), corpus, cuda_device());
    Session second(config("attention", precision), corpus, cuda_device());
    EXPECT_EQ(losses(first, 20), losses(second, 20)) << precision;
  }
}

TEST_F(CudaSession, GoesOnFromACheckpointBitForBit) {
  auto folder = std::filesystem::path(testing::TempDir()) / "cuda_session";
  std::filesystem::remove_all(folder);
  Session whole(config("attention", "fp16"), corpus, cuda_device());
  losses(whole, 5);
  whole.save(folder);
  Session resumed(latest_checkpoint(folder), &corpus, cuda_device());
  EXPECT_EQ(losses(whole, 10), losses(resumed, 10));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace sigma1
