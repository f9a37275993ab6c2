#include "sigma1/train/memory_table.h"

#include <gtest/gtest.h>

#include <map>

#include "sigma1/train/session.h"
#include "tests/backend/turning_device.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

std::map<std::string, int64_t> by_kind(const MemoryTable& table) {
  std::map<std::string, int64_t> bytes;
  for (const MemoryShare& share : table.shares) bytes[share.kind] += share.bytes;
  return bytes;
}

TrainConfig config_of(const char* precision, const char* recompute = "none",
                      const char* keep_attention = "false") {
  TrainConfig config = tiny_config({{"model", "gpt"}});
  for (auto [key, value] : {std::pair{"method", "unit"},
                            {"align", "none"},
                            {"precision", precision},
                            {"depth", "4"},
                            {"batch", "8"},
                            {"recompute", recompute},
                            {"keep-attention", keep_attention}}) {
    config.set(key, value);
  }
  config.size.vocabulary = static_cast<int64_t>(tiny_corpus().vocabulary.size());
  return config;
}

TEST(MemoryTable, IsWhatASessionTakes) {
  Corpus corpus = tiny_corpus();
  for (auto [precision, keep_attention] : {std::pair{"fp32", "false"},
                                           {"fp16", "false"},
                                           {"fp8", "false"},
                                           {"fp16", "true"},
                                           {"fp8", "true"}}) {
    TrainConfig config = config_of(precision, "none", keep_attention);
    Session session(config, corpus);
    std::map<std::string, int64_t> bytes = by_kind(memory_table(session.config(), cpu_device()));
    int64_t parameters = 0, gradients = 0, copies = 0;
    for (const std::string& name : session.store().names()) {
      if (name.ends_with("/as_e4m3")) copies += session.store().bytes(name);
    }
    for (const std::string& name : parameters_of(session)) {
      parameters += session.store().bytes(name);
      gradients += session.store().bytes(name + "/gradient");
    }
    EXPECT_EQ(bytes["parameters"], parameters) << precision;
    EXPECT_EQ(bytes["gradients"], gradients) << precision;
    EXPECT_EQ(bytes["copies"], copies) << precision;
    EXPECT_EQ(copies > 0, std::string_view(precision) == "fp8");
    EXPECT_GE(bytes["states"], 2 * parameters) << precision;
    EXPECT_EQ(bytes["activations"] + bytes["backward"], session.gradients().memory().lower_bound)
        << precision;
  }
}

TEST(MemoryTable, TotalsTheKeptAndTheArena) {
  MemoryTable table = memory_table(config_of("fp8"), cpu_device());
  std::map<std::string, int64_t> bytes = by_kind(table);
  EXPECT_EQ(table.total(), bytes["parameters"] + bytes["copies"] + bytes["gradients"] +
                               bytes["states"] + table.arena);
  EXPECT_GE(table.arena, bytes["activations"] + bytes["backward"]);
}

TEST(MemoryTable, CountsBothOrientationsOfCopies) {
  auto copies = [](const Device& device) {
    return by_kind(memory_table(config_of("fp8"), device))["copies"];
  };
  EXPECT_GT(copies(cpu_device()), 0);
  EXPECT_EQ(copies(TurningDevice()), 2 * copies(cpu_device()));
}

TEST(MemoryTable, ShowsWhatRecomputingSaves) {
  auto activations = [](const char* recompute) {
    return by_kind(memory_table(config_of("fp16", recompute), cpu_device()))["activations"];
  };
  EXPECT_LT(activations("activations"), activations("none"));
  EXPECT_LT(activations("blocks"), activations("activations"));
}

}  // namespace
}  // namespace sigma1
