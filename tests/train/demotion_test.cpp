// A product that saturates is moved to 16 bits in the middle of a run, which must stay one that can
// be repeated, stopped and resumed.
#include <algorithm>

#include "sigma1/graph/op.h"
#include "sigma1/train/model_scales.h"
#include "tests/train/run_folder.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

// Nodes that multiply anything in 8 bits or fewer.
std::set<std::string> narrow_products(const Session& session) {
  const Graph& graph = session.gradients().graph();
  std::set<std::string> names;
  for (const Node& node : graph.nodes()) {
    std::vector<TensorType> types = node.input_types();
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.op->multiplies || !node.op->multiplies({types, node.attributes}, i)) continue;
      const Node& read = graph.node(node.inputs[i].node);
      auto output = static_cast<size_t>(node.inputs[i].output);
      if (read.storage.at(output).format.bits() <= 8) names.insert(node.name);
    }
  }
  return names;
}

// Less a product and its backward.
std::set<std::string> without(const std::set<std::string>& nodes, const std::string& product) {
  std::set<std::string> rest;
  for (const std::string& node : nodes) {
    bool is_backward = node.starts_with("grad/" + product + "/");
    if (node != product && !is_backward) rest.insert(node);
  }
  return rest;
}

class Demotion : public RunFolderTest {
 protected:
  // Five bits, whose largest is 3.5: of unit scale little is beyond, and not of every tensor.
  TrainConfig saturating(bool demote) {
    return config({{"method", "unit"},
                   {"precision", "fp16"},
                   {"matmul", "e2m2"},
                   {"saturation-limit", "0.01"},
                   {"underflow-limit", "1"},
                   {"monitor-every", "4"},
                   {"demote", demote ? "true" : "false"}});
  }
  std::vector<Json> events(const std::string& kind, const std::string& run = "run") {
    std::vector<Json> found;
    for (const Json& event : lines("events.jsonl", run)) {
      if (event["kind"] == kind) found.push_back(event);
    }
    return found;
  }
  Session last_session(const std::string& run = "run") {
    return {latest_checkpoint(run_folder(run) / "checkpoints"), &corpus_};
  }
  // "PRODUCT multiplies in …"
  static std::string product_of(const Json& demotion) {
    std::string text = demotion["text"];
    return text.substr(0, text.find(' '));
  }

  Corpus corpus_ = tiny_corpus();
};

TEST_F(Demotion, OneProductReadsWiderAndTheOthersAsBefore) {
  Session session(tiny_config({{"precision", "fp8"}, {"method", "unit"}}), corpus_);
  std::set<std::string> before = narrow_products(session);
  ASSERT_TRUE(before.contains("layer0/ffn/up/linear")) << testing::PrintToString(before);
  session.demote("layer0/ffn/up/linear");
  std::set<std::string> after = narrow_products(session);
  EXPECT_EQ(after, without(before, "layer0/ffn/up/linear"));
  EXPECT_EQ(before.size() - after.size(), 3U) << "forward and two of backward";
  EXPECT_EQ(session.config().matmul_overrides, "layer0/ffn/up/linear=fp16");
  session.demote("layer0/ffn/down/linear");
  EXPECT_EQ(narrow_products(session), without(after, "layer0/ffn/down/linear"));
}

TEST_F(Demotion, CountsOverWhatWasAskedFor) {
  Session session(
      tiny_config(
          {{"precision", "fp16"}, {"matmul-overrides", "layer0/*=e4m3"}, {"method", "unit"}}),
      corpus_);
  std::set<std::string> before = narrow_products(session);
  session.demote("layer0/ffn/up/linear");
  EXPECT_EQ(session.config().matmul_overrides, "layer0/*=e4m3,layer0/ffn/up/linear=fp16");
  EXPECT_EQ(narrow_products(session), without(before, "layer0/ffn/up/linear"));
}

TEST_F(Demotion, KeepsWeightsMomentsAndHistories) {
  for (const char* method : {"unit", "per-tensor=delayed"}) {
    Session session(tiny_config({{"precision", "fp8"}, {"method", method}}), corpus_);
    losses_of(session, 3);
    std::map<std::string, std::vector<float>> before;
    for (const std::string& name : session.store().names()) {
      if (name != "tokens") before[name] = session.store().read(name);
    }
    session.demote("layer0/ffn/up/linear");
    // What copies there are is the programs' business (weight_copies_test.cpp).
    std::erase_if(before, [](const auto& each) { return each.first.ends_with("/as_e4m3"); });
    for (const auto& [name, values] : before) EXPECT_EQ(session.store().read(name), values) << name;
    EXPECT_EQ(session.step(), 3);
    std::vector<double> losses = losses_of(session, 20);
    EXPECT_LT(losses.back(), losses.front()) << "it goes on learning";
  }
}

TEST_F(Demotion, ACheckpointCarriesIt) {
  for (const char* method : {"unit", "per-tensor=delayed"}) {
    Session session(tiny_config({{"precision", "fp8"}, {"method", method}}), corpus_);
    losses_of(session, 3);
    session.demote("layer0/ffn/up/linear");
    session.save(folder_ / method);
    std::vector<double> later = losses_of(session, 5);
    Session restored(latest_checkpoint(folder_ / method), &corpus_);
    EXPECT_EQ(restored.config().to_json(), session.config().to_json());
    EXPECT_EQ(narrow_products(restored), narrow_products(session));
    EXPECT_EQ(losses_of(restored, 5), later);
    EXPECT_TRUE(tensors_of(restored) == tensors_of(session));
  }
}

// Stored in fp32, a tensor is also cast for the product that was moved: to fp16, which is fine.
TEST_F(Demotion, ATensorIsJudgedByTheNarrowestOfItsReaders) {
  std::vector<std::string> readers{"layer0/attention/linear", "layer0/attention/matmul",
                                   "layer0/attention/matmul_2"};
  for (const std::string& moved : readers) {
    Session session(tiny_config({{"matmul", "e4m3"}, {"method", "unit"}}), corpus_);
    session.demote(moved);
    Batch batch = batch_of(session.config(), corpus_, 0);
    ProbeOptions normed{.filter = "activation:layer0/norm/layer_norm"};
    std::vector<TensorScale> found = session_scales(session, session.config(), batch, normed);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].format, "e4m3");
    std::vector<std::string> others = readers;
    std::erase(others, moved);
    EXPECT_EQ(found[0].products, others);
  }
}

TEST_F(Demotion, ARunMovesWhatSaturatesAndNothingElse) {
  std::vector<std::string> told;
  RunOptions options{.folder = run_folder()};
  options.warn = [&](const std::string& text) { told.push_back(text); };
  train(saturating(true), options);
  std::vector<Json> demotions = events("demotion"), saturations = events("saturation");
  ASSERT_FALSE(demotions.empty());
  std::string overrides;
  for (const Json& each : demotions) {
    bool is_told = std::ranges::any_of(saturations, [&](const Json& other) {
      return other["tensor"] == each["tensor"] && other["role"] == each["role"];
    });
    EXPECT_TRUE(is_told) << each;
    EXPECT_EQ(std::ranges::count(told, fmt::format("step {}: {}", each["step"].get<int64_t>(),
                                                   each["text"].get<std::string>())),
              1)
        << each;
    overrides += (overrides.empty() ? "" : ",") + product_of(each) + "=fp16";
  }
  Session session = last_session();
  EXPECT_EQ(session.config().matmul_overrides, overrides);
  std::set<std::string> expected = narrow_products(Session(saturating(true), corpus_));
  size_t all = expected.size();
  std::set<int64_t> steps;
  for (const Json& each : demotions) {
    steps.insert(each["step"].get<int64_t>());
    EXPECT_TRUE(expected.contains(product_of(each))) << each;
    expected = without(expected, product_of(each));
  }
  EXPECT_GT(steps.size(), 1U) << "a test of the probe after a demotion needs two";
  EXPECT_EQ(narrow_products(session), expected);
  EXPECT_GT(expected.size(), all / 4) << "a test of some products needs others";
  EXPECT_LT(expected.size(), all);
  EXPECT_EQ(run_config(run_folder()).matmul_overrides, "") << "the run's own settings stay";
}

TEST_F(Demotion, WithoutItTheRunIsLeftAloneAndTheWayIsTold) {
  train(saturating(false), {.folder = run_folder()});
  EXPECT_TRUE(events("demotion").empty());
  ASSERT_FALSE(events("saturation").empty());
  for (const Json& event : events("saturation")) {
    EXPECT_NE(event["text"].get<std::string>().find(", or --demote does it"), std::string::npos)
        << event;
  }
  Session session = last_session();
  EXPECT_EQ(session.config().matmul_overrides, "");
  EXPECT_EQ(narrow_products(session), narrow_products(Session(saturating(false), corpus_)));
  TrainConfig unseen = saturating(false);
  unseen.monitor_every = 0;
  train(unseen, {.folder = run_folder("unseen")});
  EXPECT_EQ(lasting_metrics(), lasting_metrics("unseen"));
  // It is the same run until something is moved.
  train(saturating(true), {.folder = run_folder("demoted")});
  int64_t moved = events("demotion", "demoted").at(0)["step"].get<int64_t>();
  std::vector<Json> kept = lasting_metrics(), other = lasting_metrics("demoted");
  ASSERT_EQ(kept.size(), other.size());
  bool differs = false;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]["step"] < moved) {
      EXPECT_EQ(kept[i], other[i]);
    }
    differs = differs || kept[i] != other[i];
  }
  EXPECT_TRUE(differs);
}

TEST_F(Demotion, RepeatedStoppedAndResumedItGivesTheSameBits) {
  TrainConfig config = saturating(true);
  train(config, {.folder = run_folder("whole")});
  train(config, {.folder = run_folder("again")});
  auto moved = static_cast<int>(events("demotion", "whole").at(0)["step"].get<int64_t>());
  auto expect_same = [&](const std::string& run) {
    for (const char* file : {"events.jsonl", "monitor.jsonl"}) {
      EXPECT_EQ(content(file, run), content(file, "whole"));
    }
    EXPECT_EQ(lasting_metrics(run), lasting_metrics("whole"));
    EXPECT_EQ(content("checkpoints/step-00000020.safetensors", run),
              content("checkpoints/step-00000020.safetensors", "whole"));
  };
  expect_same("again");
  for (int first : {moved - 1, moved, moved + 1}) {
    SCOPED_TRACE(first);
    fs::remove_all(run_folder());
    run_some(config, false, first);
    run_some(run_config(run_folder()), true, 2);
    train(run_config(run_folder()), {.folder = run_folder(), .resume = true});
    expect_same("run");
  }
}

}  // namespace
}  // namespace sigma1
