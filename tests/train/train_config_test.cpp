#include "sigma1/train/train_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sigma1/base/error.h"
#include "tests/data/temporary_folder.h"

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

std::string message_of_set(std::string_view key, std::string_view text) {
  return error_of([&] { TrainConfig().set(key, text); });
}

// The message when a config with this one setting is checked.
std::string message_of_check(std::string_view key, std::string_view text) {
  return error_of([&] {
    TrainConfig config;
    config.set(key, text);
    config.check();
  });
}

bool says(const std::string& message, std::string_view part) {
  return message.find(part) != std::string::npos;
}

// A value of the same kind that differs from the default.
std::string other_value(const std::string& key, const Json& value) {
  if (key == "model") return "gpt";
  if (key == "size") return "124M";
  if (value.is_boolean()) return value.get<bool>() ? "false" : "true";
  if (value.is_string()) return value.get<std::string>() + "x";
  if (value.is_number_integer()) return std::to_string(value.get<int64_t>() + 1);
  return fmt::format("{}", value.get<double>() + 0.25);
}

TEST(TrainConfig, EveryKeySurvivesTheRoundTrip) {
  Json defaults = Json::parse(TrainConfig().to_json());
  ASSERT_EQ(defaults.size(), config_keys().size());
  for (const ConfigKey& key : config_keys()) {
    std::string name(key.name);
    EXPECT_FALSE(key.help.empty()) << name;
    ASSERT_TRUE(defaults.contains(name)) << name;
    TrainConfig config;
    std::string text = other_value(name, defaults[name]);
    config.set(name, text);
    Json changed = Json::parse(config.to_json());
    EXPECT_NE(changed[name], defaults[name]) << name;
    EXPECT_EQ(changed[name].is_string() ? changed[name].get<std::string>() : changed[name].dump(),
              text);
    EXPECT_EQ(TrainConfig::from_json(config.to_json(), "there").to_json(), config.to_json());
    if (name == "model" || name == "size") continue;  // they bring sizes of their own
    changed[name] = defaults[name];
    EXPECT_EQ(changed, defaults) << name << " changed another key";
  }
}

TEST(TrainConfig, NumbersAreReadAsPeopleTypeThem) {
  TrainConfig config;
  config.set("rate", "2^-6");
  EXPECT_EQ(config.rate, 0x1p-6);
  config.set("steps", "2e3");
  EXPECT_EQ(config.steps, 2000);
  EXPECT_EQ(TrainConfig::from_json(R"({"rate": "2^-6", "steps": 20})", "f").rate, 0x1p-6);
  EXPECT_EQ(TrainConfig::from_json(R"({"rate": 0.25, "master-weights": true})", "f").rate, 0.25);
}

TEST(TrainConfig, CommentsAreAllowed) {
  TrainConfig config = TrainConfig::from_json("{\n// why\n\"depth\": 3 /* layers */}", "f");
  EXPECT_EQ(config.size.depth, 3);
}

TEST(TrainConfig, AModelBringsItsSizesWhereverItStands) {
  TrainConfig config = TrainConfig::from_json(R"({"depth": 3, "model": "gpt"})", "f");
  EXPECT_EQ(config.size.depth, 3);
  EXPECT_EQ(config.size.vocabulary, find_model("gpt").defaults().vocabulary);
  config.set("model", "char_lm");
  EXPECT_EQ(config.size.depth, find_model("char_lm").defaults().depth);
}

TEST(TrainConfig, ANamedSizeYieldsToWhatIsSaidBesideIt) {
  TrainConfig config =
      TrainConfig::from_json(R"({"width": 256, "size": "355M", "model": "gpt"})", "f");
  EXPECT_EQ(config.size.width, 256);
  EXPECT_EQ(config.size.depth, 24);
  EXPECT_EQ(config.size.heads, 16);
  EXPECT_EQ(config.size.hidden, 4096);
  EXPECT_EQ(config.size.time, 1024);
  // What is said later, on the command line over a file, goes over all of it.
  std::pair<std::string, std::string> later[] = {{"time", "64"}, {"size", "124M"}};
  config.set_all(later);
  EXPECT_EQ(config.size.width, 768);
  EXPECT_EQ(config.size.hidden, 3072);
  EXPECT_EQ(config.size.time, 64);
  EXPECT_EQ(TrainConfig::from_json(config.to_json(), "there").to_json(), config.to_json());
  EXPECT_TRUE(says(message_of_set("size", "123M"), "124M, 355M"));
  EXPECT_TRUE(says(message_of_check("size", "124M"), "expected model gpt"));
}

TEST(TrainConfig, UnknownKeyNamesTheNearest) {
  EXPECT_TRUE(says(message_of_set("stesp", "3"), "'stesp' (did you mean steps?)"));
  std::string message = error_of([] { TrainConfig::from_json(R"({"widht": 3})", "a.json"); });
  EXPECT_TRUE(message.starts_with("a.json: ")) << message;
  EXPECT_TRUE(says(message, "width?")) << message;
  EXPECT_TRUE(says(message_of_set("zzzzzzzzzz", "3"), "--keys"));
  EXPECT_TRUE(says(message_of_set("model", "gtp"), "gpt?"));
}

TEST(TrainConfig, TextThatDoesNotFitItsKeyIsNamed) {
  for (auto [key, text] : {std::pair{"steps", "many"},
                           {"steps", "1.5"},
                           {"steps", "inf"},
                           {"steps", "1e16"},
                           {"steps", ""},
                           {"rate", "fast"},
                           {"rate", "nan"},
                           {"rate", "inf"},
                           {"master-weights", "1"},
                           {"master-weights", "yes"}}) {
    std::string message = message_of_set(key, text);
    EXPECT_TRUE(message.starts_with(fmt::format("{}: expected", key))) << message;
    EXPECT_TRUE(says(message, fmt::format("'{}'", text))) << message;
  }
}

TEST(TrainConfig, JsonOfTheWrongTypeIsNamed) {
  for (const char* setting :
       {R"("steps": [1])", R"("steps": {})", R"("steps": null)", R"("steps": true)",
        R"("steps": "x")", R"("precision": 8)", R"("train": null)", R"("model": 3)",
        R"("model": ["gpt"])", R"("optimiser": true)", R"("rate": false)",
        R"("master-weights": 1)"}) {
    std::string json = fmt::format("{{{}}}", setting);
    std::string key = Json::parse(json).begin().key();
    std::string message = error_of([&] { TrainConfig::from_json(json, "a.json"); });
    EXPECT_TRUE(message.starts_with(fmt::format("a.json: {}: expected", key))) << message;
  }
}

TEST(TrainConfig, BrokenJsonIsNamedWithItsPlace) {
  std::string message =
      error_of([] { TrainConfig::from_json("{\"depth\": 3\n\"width\": 4}", "a.json"); });
  EXPECT_TRUE(message.starts_with("a.json: ")) << message;
  EXPECT_TRUE(says(message, "line 2")) << message;
  message = error_of([] { TrainConfig::from_json("{\"rate\": 1e400}", "a.json"); });
  EXPECT_TRUE(message.starts_with("a.json: ") && says(message, "1e400")) << message;
  for (const char* json : {"[]", "3", "\"depth\"", "null"}) {
    EXPECT_TRUE(says(error_of([&] { TrainConfig::from_json(json, "a.json"); }),
                     "a.json: expected a JSON object"));
  }
  EXPECT_TRUE(says(error_of([] { TrainConfig::from_file("/nowhere.json"); }), "/nowhere.json"));
}

TEST(TrainConfig, DefaultsAreFine) { EXPECT_NO_THROW(TrainConfig().check()); }

TEST(TrainConfig, BadValuesAreNamedWithTheirKey) {
  for (auto [key, text] : {std::pair{"context", "x"},
                           {"norm", "x"},
                           {"residual", "x"},
                           {"depth", "0"},
                           {"width", "0"},
                           {"width", "-4"},
                           {"ffn", "0"},
                           {"tokens", "x"},
                           {"vocabulary", "-1"},
                           {"parametrization", "x"},
                           {"heads", "0"},
                           {"heads", "3"},
                           {"batch", "0"},
                           {"time", "0"},
                           {"masked", "256"},
                           {"masked", "-1"},
                           {"method", "units"},
                           {"scheme", "x"},
                           {"align", "x"},
                           {"keep-attention", "x"},
                           {"precision", "fp7"},
                           {"activations", "fp99"},
                           {"weights", "fp99"},
                           {"gradients", "stored"},
                           {"moment", "fp99"},
                           {"matmul", "fp99"},
                           {"matmul-overrides", "head"},
                           {"matmul-overrides", "head=fp99"},
                           {"matmul-overrides", "a=b=c"},
                           {"weight-rounding", "up"},
                           {"optimiser", "adem"},
                           {"rate", "-1"},
                           {"momentum", "1"},
                           {"momentum", "-0.5"},
                           {"beta1", "1"},
                           {"beta2", "1.5"},
                           {"epsilon", "-1"},
                           {"weight-decay", "-1"},
                           {"schedule", "x"},
                           {"warmup", "-1"},
                           {"half-life", "-1"},
                           {"steps", "0"},
                           {"accumulate", "0"},
                           {"reduce", "e4m3"},
                           {"shard", "all"},
                           {"bucket", "0"},
                           {"bucket", "-1"},
                           {"collectives", "never"},
                           {"seed", "-1"},
                           {"evaluate-every", "-1"},
                           {"evaluate-limit", "-1"},
                           {"checkpoint-every", "-1"},
                           {"keep", "0"},
                           {"log-every", "0"},
                           {"probe", "gradx:"},
                           {"probe", "layer0:head"},
                           {"probe", "head,"},
                           {"probe-every", "-1"},
                           {"monitor-every", "-1"},
                           {"saturation-limit", "-0.1"},
                           {"saturation-limit", "1.5"},
                           {"underflow-limit", "-0.1"},
                           {"underflow-limit", "1.5"}}) {
    std::string message = message_of_check(key, text);
    EXPECT_TRUE(says(message, key)) << key << "=" << text << ": " << message;
    EXPECT_TRUE(says(message, "expected") || says(message, "unknown")) << message;
  }
}

TEST(TrainConfig, SettingsThatContradictEachOtherAreNamed) {
  TrainConfig config;
  config.method = "per-tensor=current";
  config.precision = "fp16";
  EXPECT_TRUE(says(error_of([&] { config.check(); }), "per-tensor"));
  config.matmul = "e4m3";
  EXPECT_NO_THROW(config.check());
  config = TrainConfig();
  config.size.residual = "fixed";
  config.size.tau = 2;
  EXPECT_TRUE(says(error_of([&] { config.check(); }), "2"));
  config = TrainConfig();
  config.size.time = 1;
  config.context = 0;
  EXPECT_TRUE(says(error_of([&] { config.check(); }), "time: expected"));
  config = TrainConfig();
  config.warmup = config.steps + 1;
  EXPECT_TRUE(says(error_of([&] { config.check(); }), "warmup"));
  config = TrainConfig();
  config.demote = true;
  EXPECT_NO_THROW(config.check());
  config.monitor_every = 0;
  std::string message = error_of([&] { config.check(); });
  EXPECT_TRUE(message.starts_with("demote: expected monitor-every above 0")) << message;
}

TEST(TrainConfig, TensorsAreProbedByRoleAndName) {
  for (const char* probe :
       {"all", "none", "gradx", "layer0/*", "weight:head,gradw:head", "activation,layer*/ffn"}) {
    TrainConfig config;
    config.probe = probe;
    EXPECT_NO_THROW(config.check()) << probe;
  }
  for (auto [key, text] : {std::pair{"demote", "1"},
                           {"probe-every", "x"},
                           {"monitor-every", "0.5"},
                           {"saturation-limit", "few"},
                           {"underflow-limit", "nan"}}) {
    std::string message = message_of_set(key, text);
    EXPECT_TRUE(message.starts_with(fmt::format("{}: expected", key))) << message;
  }
}

TEST(TrainConfig, OnlyModelsThatReadTextCanBeTrained) {
  for (const char* model : {"mlp", "ffn", "transformer"}) {
    TrainConfig config;
    config.set("model", model);
    config.context = 4;
    std::string message = error_of([&] { config.check(); });
    EXPECT_TRUE(says(message, "model: expected") && says(message, model)) << message;
  }
}

}  // namespace
}  // namespace sigma1
