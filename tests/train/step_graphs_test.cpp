// One step of training against formulas: gradients of the reference, updates written out by hand.
#include "sigma1/train/step_graphs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "sigma1/passes/differentiate.h"
#include "tests/train/tiny_run.h"

namespace sigma1 {
namespace {

using Numbers = std::vector<float>;
using ByName = std::map<std::string, Numbers>;

// The plain model's gradients by the reference, in double.
std::map<std::string, Tensor> reference_gradients(const Session& session, const Batch& batch) {
  Graph graph;
  build_model(graph, session.config().model, session.config().size);
  Gradients gradients = differentiate(graph, graph.output("loss"));
  Bindings bindings = bindings_of(batch);
  for (Value parameter : graph.parameters()) {
    const std::string& name = graph.node(parameter.node).name;
    Numbers values = session.store().read(name);
    bindings[name] = Tensor(parameter.shape(), {values.begin(), values.end()});
  }
  ReferenceResult result = run_reference(graph, bindings);
  std::map<std::string, Tensor> found;
  for (Value parameter : graph.parameters()) {
    found.emplace(graph.node(parameter.node).name, result[gradients.of(parameter)]);
  }
  return found;
}

// Every position counts, so that every parameter has a gradient, and an epsilon
// large enough that rounding in a gradient cannot turn a direction round.
constexpr double kEpsilon = 1e-3, kRate = 0x1p-7;

double adam_direction(double m, double v, int step) {
  return m / (1 - std::pow(0.9, step)) / (std::sqrt(v / (1 - std::pow(0.999, step))) + kEpsilon);
}

class OneStep : public testing::TestWithParam<const char*> {
 protected:
  Corpus corpus_ = tiny_corpus();
};

TEST_F(OneStep, OfAdamEqualsTheFormula) {
  Session session(tiny_config({{"masked", "0"}, {"epsilon", "1e-3"}, {"rate", "2^-7"}}), corpus_);
  std::map<std::string, std::vector<double>> m, v;
  for (int step = 1; step <= 3; ++step) {
    Batch batch = batch_of(session.config(), corpus_, static_cast<uint64_t>(step - 1));
    auto gradients = reference_gradients(session, batch);
    auto before = tensors_of(session);
    session.train_step();
    auto after = tensors_of(session);
    for (const auto& [name, gradient] : gradients) {
      m[name].resize(gradient.data.size());
      v[name].resize(gradient.data.size());
      double largest_change = 0;
      for (size_t i = 0; i < gradient.data.size(); ++i) {
        double g = gradient.data[i];
        m[name][i] = 0.9 * m[name][i] + 0.1 * g;
        v[name][i] = 0.999 * v[name][i] + 0.001 * g * g;
        double change = -kRate * adam_direction(m[name][i], v[name][i], step);
        largest_change = std::max(largest_change, std::fabs(change));
        ASSERT_NEAR(after[name][i], before[name][i] + change, 2e-6) << name << " " << i;
        ASSERT_NEAR(after[moment_name(name)][i], m[name][i], 1e-6) << name << " " << i;
        ASSERT_NEAR(after[second_moment_name(name)][i], v[name][i], 1e-7) << name << " " << i;
      }
      EXPECT_GT(largest_change, 1e-4) << name << " hardly moved, so nothing was tested";
    }
  }
}

TEST_F(OneStep, OfAdamDecaysWithinTheGradientAndOfAdamwBesideIt) {
  for (const char* optimiser : {"adam", "adamw"}) {
    Session session(tiny_config({{"optimiser", optimiser},
                                 {"weight-decay", "0.125"},
                                 {"epsilon", "1e-3"},
                                 {"rate", "2^-7"}}),
                    corpus_);
    auto gradients = reference_gradients(session, batch_of(session.config(), corpus_, 0));
    auto before = tensors_of(session);
    session.train_step();
    auto after = tensors_of(session);
    bool decoupled = std::string_view(optimiser) == "adamw";
    for (const auto& [name, gradient] : gradients) {
      for (size_t i = 0; i < gradient.data.size(); ++i) {
        double p = before[name][i], decay = 0.125 * p;
        double g = gradient.data[i] + (decoupled ? 0 : decay);
        double direction = g / (std::fabs(g) + kEpsilon) + (decoupled ? decay : 0);
        ASSERT_NEAR(after[name][i], p - kRate * direction, 3e-6) << optimiser << " " << name;
      }
    }
  }
}

TEST_F(OneStep, OfSgdKeepsMomentum) {
  Session session(tiny_config({{"optimiser", "sgd"}, {"rate", "0.25"}, {"momentum", "0.5"}}),
                  corpus_);
  std::map<std::string, std::vector<double>> velocity;
  for (uint64_t step = 0; step < 3; ++step) {
    auto gradients = reference_gradients(session, batch_of(session.config(), corpus_, step));
    auto before = tensors_of(session);
    session.train_step();
    auto after = tensors_of(session);
    for (const auto& [name, gradient] : gradients) {
      velocity[name].resize(gradient.data.size());
      for (size_t i = 0; i < gradient.data.size(); ++i) {
        double& speed = velocity[name][i];
        speed = 0.5 * speed + gradient.data[i];
        ASSERT_NEAR(after[name][i], before[name][i] - 0.25 * speed, 1e-6) << name << " " << i;
      }
    }
  }
}

// Biases, tables and norms take part in every position alike; matrices are what rates are tuned
// for.
TEST_P(OneStep, RatesOfWhatIsNoMatrixAreSmallerUnderUnitScaling) {
  for (const char* method : {"unit", "none"}) {
    Session session(tiny_config({{"context", GetParam()},
                                 {"masked", "0"},
                                 {"method", method},
                                 {"optimiser", "sgd"},
                                 {"momentum", "0"},
                                 {"rate", "0.25"}}),
                    corpus_);
    auto before = tensors_of(session);
    session.train_step();
    for (const std::string& name : parameters_of(session)) {
      bool matrix = name.ends_with("/weight") || name.ends_with("/positions");
      bool smaller = std::string_view(method) == "unit" && !matrix;
      double rate = smaller ? 0.25 / std::sqrt(16) : 0.25;
      Numbers gradient = session.store().read(gradient_name(name));
      Numbers after = session.store().read(name);
      double moved = 0;
      for (size_t i = 0; i < gradient.size(); ++i) {
        double change = -rate * gradient[i];
        moved = std::max(moved, std::fabs(change));
        ASSERT_NEAR(after[i], before[name][i] + change, 1e-6 + 1e-6 * std::fabs(change)) << name;
      }
      EXPECT_GT(moved, 1e-4) << name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Contexts, OneStep, testing::Values("attention", "conv", "rnn"));

ByName after_steps(const TrainConfig& config, const Corpus& corpus, int steps) {
  Session session(config, corpus);
  losses_of(session, steps);
  return tensors_of(session);
}

// Powers of two only move exponents, and fp32 has exponents to spare.
TEST(LossScale, ChangesNothingInFp32) {
  Corpus corpus = tiny_corpus();
  for (const char* optimiser : {"sgd", "adam"}) {
    auto run = [&](const char* method) {
      return after_steps(tiny_config({{"method", method}, {"optimiser", optimiser}}), corpus, 5);
    };
    ByName plain = run("none");
    for (const char* method : {"loss-scale=1", "loss-scale=1024", "auto-loss-scale"}) {
      EXPECT_TRUE(run(method) == plain) << method;
    }
  }
  ByName plain = after_steps(tiny_config({{"optimiser", "sgd"}}), corpus, 5);
  ByName odd =
      after_steps(tiny_config({{"method", "loss-scale=1000"}, {"optimiser", "sgd"}}), corpus, 5);
  for (const auto& [name, values] : plain) {
    for (size_t i = 0; i < values.size(); ++i) ASSERT_NEAR(odd[name][i], values[i], 1e-5) << name;
  }
}

Batch joined(const Batch& a, const Batch& b) {
  Batch both = a;
  both.tokens.insert(both.tokens.end(), b.tokens.begin(), b.tokens.end());
  both.mask.insert(both.mask.end(), b.mask.begin(), b.mask.end());
  both.sequences += b.sequences;
  return both;
}

// The gradients of one large batch, at the parameters given.
ByName gradients_at_once(TrainConfig config, const Alignment& alignment, const ByName& parameters,
                         const Batch& batch) {
  config.size.batch = batch.sequences;
  config.accumulate = 1;
  Store store;
  StepGraph step = gradient_graph(config, alignment, cpu_device());
  Program program(step.graph, store, step.stored);
  for (Value parameter : step.graph->parameters()) {
    const std::string& name = step.graph->node(parameter.node).name;
    store.write(name, parameters.at(name));
  }
  write_batch(store, batch);
  program.run(0);
  ByName gradients;
  for (const auto& [output, name] : step.stored) gradients[name] = store.read(name);
  return gradients;
}

// Two batches of 2 in one step against the same windows as one batch of 4. What the optimiser is
// given is equal: plain losses are means, so the sum counts twice and is halved; unit scaling's
// factors know how many batches are added.
TEST(Accumulate, EqualsOneLargerBatch) {
  Corpus corpus = tiny_corpus();
  for (const char* method : {"none", "loss-scale=8", "auto-loss-scale", "unit"}) {
    SCOPED_TRACE(method);
    Session session(tiny_config({{"method", method},
                                 {"optimiser", "sgd"},
                                 {"momentum", "0"},
                                 {"rate", "0.25"},
                                 {"accumulate", "2"}}),
                    corpus);
    const TrainConfig& config = session.config();
    TrainConfig large = config;
    if (large.method != "unit") large.method = "none";
    Batch both = joined(batch_of(config, corpus, 0), batch_of(config, corpus, 1));
    ByName before = tensors_of(session);
    ByName whole = gradients_at_once(large, session.alignment(), before, both);
    session.train_step();
    for (const std::string& name : parameters_of(session)) {
      bool matrix = name.ends_with("/weight") || name.ends_with("/positions");
      double rate = large.method == "unit" && !matrix ? 0.25 / 4 : 0.25;
      Numbers after = session.store().read(name);
      const Numbers& gradient = whole.at(gradient_name(name));
      for (size_t i = 0; i < after.size(); ++i) {
        double change = -rate * gradient[i];
        ASSERT_NEAR(after[i], before[name][i] + change, 2e-6 + 1e-5 * std::fabs(change)) << name;
      }
    }
  }
}

// The batches of a step are those of as many steps before it.
TEST(Accumulate, TakesNewBatchesEachStepAndGivesTheMeanLoss) {
  Corpus corpus = tiny_corpus();
  Settings still{{"rate", "1e-30"}};
  Session one(tiny_config(still), corpus);
  std::vector<double> single = losses_of(one, 6);
  Session three(tiny_config({{"rate", "1e-30"}, {"accumulate", "3"}}), corpus);
  std::vector<double> means = losses_of(three, 2);
  EXPECT_NEAR(means[0], (single[0] + single[1] + single[2]) / 3, 1e-12);
  EXPECT_NEAR(means[1], (single[3] + single[4] + single[5]) / 3, 1e-12);
}

// What only products of 8 bits read is stored in 8 bits by the op that computes it.
TEST(GradientGraph, NormsAndActivationsAreStoredAsProductsReadThem) {
  TrainConfig config = tiny_config({{"model", "gpt"}, {"method", "unit"}, {"precision", "fp8"}});
  config.size.vocabulary = 64;
  StepGraph step = gradient_graph(config, {}, cpu_device());
  for (const char* name : {"layer0/norm1/layer_norm", "layer0/norm2/layer_norm", "layer0/ffn/gelu",
                           "layer0/attention/attention"}) {
    auto node = std::ranges::find(step.graph->nodes(), name, &Node::name);
    ASSERT_NE(node, step.graph->nodes().end()) << name;
    EXPECT_EQ(node->storage.front().format, find_format("e4m3").format) << name;
  }
}

// The loss of the graph that also gives scores, from the scores.
TEST(EvaluationGraph, LossIsTheCrossEntropyOfItsScores) {
  Corpus corpus = tiny_corpus();
  for (auto [method, precision] : {std::pair{"none", "fp32"},
                                   {"unit", "fp32"},
                                   {"unit", "fp8"},
                                   {"loss-scale=64", "fp16"},
                                   {"per-tensor=delayed", "fp8"}}) {
    Session session(tiny_config({{"method", method}, {"precision", precision}}), corpus);
    losses_of(session, 3);
    StepGraph step = evaluation_graph(session.config(), session.alignment(), true);
    Store store;
    Program program(step.graph, store, step.stored);
    for (const std::string& name : parameters_of(session)) {
      store.write(name, session.store().read(name));
    }
    std::span<const uint16_t> text = std::span(corpus.valid).first(20);
    Batch batch = evaluation_batch(text, 0, 2, {16, 4});
    write_batch(store, batch);
    program.run(0);
    Numbers scores = read_floats(program.output("scores"));
    size_t vocabulary = corpus.vocabulary.size();
    double nats = 0;
    for (size_t row = 0; row < batch.mask.size(); ++row) {
      if (batch.mask[row] == 0) continue;
      double sum = 0;
      for (size_t i = 0; i < vocabulary; ++i) {
        sum += std::exp(static_cast<double>(scores[row * vocabulary + i]));
      }
      nats += std::log(sum) - scores[row * vocabulary + batch.tokens[row]];
    }
    Evaluation found = session.evaluate(text);
    EXPECT_EQ(found.characters, 20);
    EXPECT_NEAR(found.loss, nats / 20, 1e-5) << method << " " << precision;
    EXPECT_NEAR(found.bits_per_character, nats / 20 / std::log(2.0), 1e-5);
  }
}

}  // namespace
}  // namespace sigma1
