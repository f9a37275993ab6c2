// Weights that another run has left mean the same function in this one.
#include "sigma1/train/initial_weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sigma1/base/error.h"
#include "sigma1/train/plain_model.h"
#include "tests/data/temporary_folder.h"
#include "tests/exchange/bert_example.h"

namespace sigma1 {
namespace {

class InitialWeightsTest : public TemporaryFolderTest {
 protected:
  // What a model of this config starts with, from a model that was saved.
  ParameterValues taken(TrainConfig config, const StoredModel& from) {
    write_model(folder_ / "from", from);
    config.init = folder_ / "from";
    std::shared_ptr<Graph> graph = forward_graph(config, from.alignment);
    Store store;
    std::vector<std::string> names;
    for (Value parameter : graph->parameters()) {
      names.push_back(graph->node(parameter.node).name);
      store.create(names.back(), parameter.type(), storage_cast("fp32"));
    }
    InitialWeights(config, vocabulary_).write(store, names);
    ParameterValues values;
    for (const std::string& name : names) values[name] = store.read(name);
    return values;
  }

  Vocabulary vocabulary_ = Vocabulary::of_ids(50);  // the example's
};

void expect_near(const std::vector<float>& expected, const std::vector<float>& found,
                 const std::string& name) {
  ASSERT_EQ(expected.size(), found.size()) << name;
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 2e-6 * std::fabs(expected[i])) << name;
}

TEST_F(InitialWeightsTest, AnotherSchemeAndLengthComputeTheSame) {
  StoredModel from = bert_example(bert_config("bert", "unit", "paper"));
  TrainConfig longer = bert_config("bert", "unit", "exact");
  longer.size.time = 9;
  StoredModel to{longer, from.vocabulary, from.alignment, taken(longer, from)};
  ParameterValues before = to_plain(from), after = to_plain(to);
  for (const auto& [name, numbers] : before) expect_near(numbers, after.at(name), name);
  // The attention's factor depends on how many keys there are: something had to change.
  EXPECT_NE(to.parameters.at("layer0/attention/out/weight"),
            from.parameters.at("layer0/attention/out/weight"));
}

TEST_F(InitialWeightsTest, ATaskTakesTheEncoder) {
  StoredModel from = bert_example(bert_config("bert", "none"));
  TrainConfig task = bert_config("bert_squad", "unit");
  ParameterValues found = taken(task, from), plain = to_plain(from);
  plain["squad/weight"].resize(24);
  plain["squad/bias"].resize(2);
  for (const auto& [name, numbers] : from_plain(task, from.alignment, plain))
    expect_near(numbers, found.at(name), name);
}

TEST_F(InitialWeightsTest, SaysWhatDoesNotFit) {
  StoredModel from = bert_example(bert_config("bert", "unit"));
  TrainConfig wider = bert_config("bert", "unit");
  wider.size.hidden = 24;
  EXPECT_NE(error_of([&] { taken(wider, from); }).find("ffn"), std::string::npos);
  TrainConfig deeper = bert_config("bert", "unit");
  deeper.size.depth = 3;
  EXPECT_NE(error_of([&] { taken(deeper, from); }).find("2 layers"), std::string::npos);
  // A task's encoder would start with a layer that nobody trained.
  deeper = bert_config("bert_squad", "unit");
  deeper.size.depth = 3;
  EXPECT_NE(error_of([&] { taken(deeper, from); }).find("2 layers"), std::string::npos);
  vocabulary_ = Vocabulary::of_ids(51);  // of as many rows as 50
  EXPECT_NE(error_of([&] { taken(bert_config("bert", "unit"), from); }).find("50 tokens"),
            std::string::npos);
}

}  // namespace
}  // namespace sigma1
