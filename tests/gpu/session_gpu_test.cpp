// Training on the GPU against training on the CPU: losses, resume, and what a probe sees.
#include <gtest/gtest.h>

#include <thread>

#include "sigma1/backend/cuda/device.h"
#include "sigma1/backend/devices.h"
#include "sigma1/train/model_scales.h"
#include "tests/gpu/session_case.h"
#include "tests/train/casting_run.h"

namespace sigma1 {
namespace {

class CudaSession : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }

  static TrainConfig config(const std::string& context, const std::string& precision) {
    return small_config(context, precision);
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

TEST_F(CudaSession, LeavesSmallProductsIn16BitsAndGoesOnSo) {
  TrainConfig measured = config("attention", "fp8"), half = config("attention", "fp16");
  measured.dispatch = "measured";
  Session session(measured, corpus, cuda_device()), of_16(half, corpus, cuda_device());
  EXPECT_FALSE(session.dispatched().empty());
  EXPECT_EQ(losses(session, 10), losses(of_16, 10));
}

TEST_F(CudaSession, GivesTheSameBitsTwice) {
  for (const char* precision : {"fp32", "fp16", "fp8"}) {
    Session first(config("attention", precision), corpus, cuda_device());
    Session second(config("attention", precision), corpus, cuda_device());
    EXPECT_EQ(losses(first, 20), losses(second, 20)) << precision;
  }
}

// Few rows, whose products are not turned, and as many as a language model has.
TEST_F(CudaSession, KeepsCopiesOfWeightsWithTheBitsOfCasts) {
  for (const char* optimiser : {"adamw", "lamb", "sgd"}) {
    for (int64_t batch : {4, 128}) {
      SCOPED_TRACE(fmt::format("{} {}", optimiser, batch));
      TrainConfig made = config("attention", "fp8");
      made.optimiser = optimiser;
      made.size.batch = batch;
      made.accumulate = 2;
      Session session(made, corpus, cuda_device());
      CastingRun casting(session, corpus);
      for (Value parameter : session.gradients().graph().parameters()) {
        const std::string& name = session.gradients().graph().node(parameter.node).name;
        casting.store().write_bytes(name, session.store().read_bytes(name));
      }
      EXPECT_EQ(losses_ahead(session, 6), casting.losses(6));
      int copies = 0;
      for (const std::string& name : session.store().names()) {
        if (!name.ends_with("/as_e4m3")) continue;
        ++copies;
        const Buffer& copy = session.store().at(name);
        std::vector<std::byte> codes = session.store().read_bytes(name), turned(codes.size());
        if (copy.turned == nullptr) continue;
        cuda_device().read(turned.data(), copy.turned, static_cast<int64_t>(turned.size()));
        size_t width = static_cast<size_t>(copy.shape.back()), rows = codes.size() / width;
        for (size_t i = 0; i < codes.size(); ++i) {
          ASSERT_EQ(turned[i % width * rows + i / width], codes[i]) << name << " at " << i;
        }
      }
      EXPECT_GT(copies, 0);
    }
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

TEST_F(CudaSession, GivesTheSameBitsWithStepsAhead) {
  for (const char* context : {"attention", "conv", "rnn"}) {
    Session waits(config(context, "fp16"), corpus, cuda_device());
    Session ahead(config(context, "fp16"), corpus, cuda_device());
    ASSERT_GT(ahead.most_ahead(), 1);
    EXPECT_EQ(losses(waits, 30), losses_ahead(ahead, 30)) << context;
    EXPECT_TRUE(tensors_of(waits) == tensors_of(ahead)) << context;
  }
}

TEST_F(CudaSession, GivesTheSameBitsByLambWithStepsAhead) {
  for (const char* precision : {"fp32", "fp16"}) {
    TrainConfig lamb = config("attention", precision);
    lamb.optimiser = "lamb";
    Session waits(lamb, corpus, cuda_device()), ahead(lamb, corpus, cuda_device());
    EXPECT_EQ(losses(waits, 30), losses_ahead(ahead, 30)) << precision;
    EXPECT_TRUE(tensors_of(waits) == tensors_of(ahead)) << precision;
  }
}

TEST_F(CudaSession, GivesTheSameBitsBesideOthers) {
  auto run = [&](const char* context, std::vector<double>& found) {
    Session session(config(context, "fp16"), corpus, cuda_device());
    found = losses_ahead(session, 30);
  };
  const std::vector<const char*> contexts{"attention", "conv", "attention", "rnn", "conv"};
  std::vector<std::vector<double>> alone(contexts.size()), beside(contexts.size());
  for (size_t i = 0; i < contexts.size(); ++i) run(contexts[i], alone[i]);
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < contexts.size(); ++i) {
      threads.emplace_back([&, i] { run(contexts[i], beside[i]); });
    }
  }
  EXPECT_EQ(alone, beside);
}

TEST_F(CudaSession, StopsBeforeTheStepThatIsNotFinite) {
  for (int64_t accumulate : {1, 2}) {
    TrainConfig wild = config("attention", "fp16");
    wild.rate = 1e30;
    wild.accumulate = accumulate;
    Session session(wild, corpus, cuda_device()), before(wild, corpus, cuda_device());
    std::string told, on_cpu;
    try {
      losses_ahead(session, 30);
    } catch (const NotFinite& error) {
      told = error.what();
    }
    ASSERT_LT(session.step(), 30) << told;
    losses(before, static_cast<int>(session.step()));
    EXPECT_TRUE(tensors_of(session) == tensors_of(before));
    Session cpu(wild, corpus);
    try {
      losses(cpu, 30);
    } catch (const NotFinite& error) {
      on_cpu = error.what();
    }
    EXPECT_EQ(told, on_cpu);
  }
}

TEST_F(CudaSession, SkipsWhatOverflowsWithAutomaticLossScaling) {
  TrainConfig scaled = config("attention", "fp16");
  scaled.method = "auto-loss-scale";
  Session cpu(scaled, corpus), gpu(scaled, corpus, cuda_device());
  EXPECT_EQ(gpu.most_ahead(), 1);
  losses(cpu, 20);
  losses(gpu, 20);
  EXPECT_EQ(gpu.loss_scaler().skipped, cpu.loss_scaler().skipped);
}

TEST_F(CudaSession, RoundsProductsOfFp32OnlyWhenAsked) {
  Session full(config("attention", "fp32"), corpus, cuda_device());
  Session rounded(config("attention", "fp32"), corpus, find_device("cuda+tf32"));
  std::vector<double> a = losses(full, 10), b = losses(rounded, 10);
  EXPECT_NE(a, b);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-2) << "step " << i;
}

TEST_F(CudaSession, IsProbedWhereItRuns) {
  Session session(config("attention", "fp16"), corpus, cuda_device());
  ModelBatch batch = step_batch(session.config(), corpus, 0);
  auto there = session_scales(session, session.config(), batch, {.device = &cuda_device()});
  auto here = session_scales(session, session.config(), batch, {});
  ASSERT_EQ(there.size(), here.size());
  for (size_t i = 0; i < there.size(); ++i) {
    EXPECT_EQ(there[i].name, here[i].name);
    double rms = here[i].stats.rms();
    EXPECT_NEAR(there[i].stats.rms(), rms, 1e-3 * rms) << here[i].name;
  }
}

}  // namespace
}  // namespace sigma1
