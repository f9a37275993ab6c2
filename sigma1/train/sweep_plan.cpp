#include "sigma1/train/sweep_plan.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "sigma1/base/crc32c.h"
#include "sigma1/base/error.h"
#include "sigma1/base/file.h"
#include "sigma1/base/text.h"

namespace sigma1 {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kLadderKey = "ladder";

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n";
  size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

std::string joined(const Settings& settings, std::string_view separator) {
  std::vector<std::string> words;
  for (const Setting& setting : settings) words.push_back(setting.key + "=" + setting.value);
  return fmt::format("{}", fmt::join(words, separator));
}

// A word without a key is another value of `key`.
Setting parse_setting(std::string_view text, const std::string& key) {
  size_t at = text.find('=');
  Setting setting = at == std::string_view::npos
                        ? Setting{key, trimmed(text)}
                        : Setting{trimmed(text.substr(0, at)), trimmed(text.substr(at + 1))};
  if (setting.key.empty() || setting.value.empty()) {
    throw Error("vary: expected KEY=VALUE|VALUE|… or KEY=VALUE,KEY=VALUE|…, got '{}'", text);
  }
  return setting;
}

std::vector<std::string> keys_of(const Settings& settings) {
  std::vector<std::string> keys;
  for (const Setting& setting : settings) keys.push_back(setting.key);
  return keys;
}

bool has_key(const SweepAxis& axis, std::string_view key) {
  return std::ranges::find(axis.front(), key, &Setting::key) != axis.front().end();
}

bool shares_a_key(const SweepAxis& a, const SweepAxis& b) {
  return std::ranges::any_of(a.front(), [&](const Setting& s) { return has_key(b, s.key); });
}

std::string safe_name(const std::string& text) {
  constexpr std::string_view kSafe = "._=+-^";
  constexpr size_t kLongest = 200;  // file systems allow 255 bytes
  std::string name = text;
  std::ranges::replace_if(
      name,
      [&](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) == 0 &&
               kSafe.find(c) == std::string_view::npos;
      },
      '_');
  if (name == text && name.size() <= kLongest) return name.empty() ? "run" : name;
  // What was lost must not make two runs one.
  return fmt::format("{}-{:08x}", name.substr(0, kLongest), crc32c(text));
}

Combination combine(const SweepPlan& plan, const Settings& settings) {
  Combination result{.settings = {},
                     .config = plan.base,
                     .ladder = plan.ladder,
                     .ladder_steps = plan.ladder_steps};
  std::vector<std::pair<std::string, std::string>> changes;
  for (const Setting& setting : settings) {
    if (setting.key == kLadderKey) {
      result.ladder = parse_ladder(setting.value);
      result.ladder.threshold = plan.ladder.threshold;
      continue;
    }
    changes.emplace_back(setting.key, setting.value);
    result.settings.push_back(setting);
  }
  result.config.set_all(changes);
  for (double rate : result.ladder.rates()) result.at_rate(rate).check();
  int64_t steps = result.ladder_steps;
  if (steps < 0 || steps > result.config.steps) {
    throw Error("ladder-steps: expected from 1 to the {} of a whole run, got {}",
                result.config.steps, steps);
  }
  if (steps > 0 && result.ladder.start == 0) {
    throw Error("ladder-steps: expected a ladder, to choose a rate of");
  }
  return result;
}

void check_axes(const SweepPlan& plan) {
  for (size_t i = 0; i < plan.axes.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (shares_a_key(plan.axes[i], plan.axes[j])) {
        throw Error("vary: expected each key on one axis, got '{}' and '{}'",
                    to_string(plan.axes[j].front()), to_string(plan.axes[i].front()));
      }
    }
    for (const char* key : {"train", "valid", "tokens", "vocabulary"}) {
      if (has_key(plan.axes[i], key)) throw Error("vary: all runs share one text, got '{}'", key);
    }
    bool on_ladder = plan.ladder.start > 0 ||
                     std::ranges::any_of(plan.axes, [](auto& a) { return has_key(a, kLadderKey); });
    if (on_ladder && has_key(plan.axes[i], "rate")) {
      throw Error("vary: expected a ladder or rates, got both");
    }
  }
}

std::string joined_alternatives(const Json& list) {
  return fmt::format("{}", fmt::join(list.get<std::vector<std::string>>(), "|"));
}

void read_key(SweepPlan& plan, const std::string& key, const Json& value,
              const std::string& origin) {
  if (key == "about") {
    plan.about = value.get<std::string>();
  } else if (key == "base") {
    plan.base = TrainConfig::from_json(value.dump(), origin);
  } else if (key == "vary") {
    for (const Json& axis : value) {
      plan.axes.push_back(
          parse_axis(axis.is_array() ? joined_alternatives(axis) : axis.get<std::string>()));
    }
  } else if (key == "ladder") {
    double threshold = plan.ladder.threshold;
    plan.ladder = parse_ladder(value.get<std::string>());
    plan.ladder.threshold = threshold;
  } else if (key == "ladder-steps") {
    plan.ladder_steps = value.get<int64_t>();
  } else if (key == "threshold") {
    plan.ladder.threshold = value.get<double>();
  } else if (key == "figure-by") {
    plan.figure_by = value.get<std::string>();
  } else {
    throw Error(
        "unknown key '{}'; expected about, base, vary, ladder, ladder-steps, threshold, figure-by",
        key);
  }
}

}  // namespace

std::string to_string(const Settings& settings) { return joined(settings, ","); }

SweepAxis parse_axis(std::string_view text) {
  SweepAxis axis;
  for (const std::string& alternative : split(text, '|')) {
    Settings settings;
    for (const std::string& word : split(alternative, ',')) {
      bool bare = axis.empty() || axis.front().size() != 1;
      settings.push_back(parse_setting(word, bare ? "" : axis.front().front().key));
    }
    axis.push_back(std::move(settings));
    if (keys_of(axis.back()) != keys_of(axis.front())) {
      throw Error("vary: expected the same keys in every alternative, got '{}' and '{}'",
                  to_string(axis.front()), to_string(axis.back()));
    }
  }
  return axis;
}

Ladder parse_ladder(std::string_view text) {
  std::vector<std::string> ends = split(text, ':');
  auto start = parse_number(trimmed(ends.front())), limit = parse_number(trimmed(ends.back()));
  if (ends.size() != 2 || !start || !limit || !(*start > 0) || !(*limit >= *start) ||
      !std::isfinite(*limit)) {
    throw Error("ladder: expected START:LIMIT, positive rates, the lower first, got '{}'", text);
  }
  return {.start = *start, .limit = *limit};
}

TrainConfig Combination::at_rate(double rate) const {
  TrainConfig result = config;
  if (rate > 0) result.rate = rate;
  return result;
}

std::string Combination::folder_name(double rate) const {
  std::string text = joined(settings, "_");
  if (rate > 0) text += fmt::format("{}rate={}", text.empty() ? "" : "_", short_number(rate));
  return safe_name(text);
}

TrainConfig Combination::on_ladder(double rate) const {
  TrainConfig result = at_rate(rate);
  if (ladder_steps > 0) result.steps = ladder_steps;
  return result;
}

// Short runs have a place of their own beside the whole one at the same rate.
std::string Combination::ladder_folder_name(double rate) const {
  std::string name = folder_name(rate);
  return ladder_steps > 0 ? fmt::format("{}_steps={}", name, ladder_steps) : name;
}

SweepPlan SweepPlan::from_file(const std::string& path) { return from_json(read_file(path), path); }

SweepPlan SweepPlan::from_json(std::string_view json, const std::string& origin) {
  Json object = Json::parse(json, nullptr, false, true);
  if (!object.is_object()) throw Error("{}: expected a JSON object that describes a sweep", origin);
  SweepPlan plan;
  for (const auto& [key, value] : object.items()) {
    try {
      read_key(plan, key, value, origin);
    } catch (const Json::exception&) {
      throw Error("{}: {}: a {} was not expected", origin, key, value.type_name());
    } catch (const Error& error) {
      std::string text = error.what();
      throw Error("{}{}", text.starts_with(origin) ? "" : origin + ": ", text);
    }
  }
  return plan;
}

void SweepPlan::vary(SweepAxis axis) {
  auto shares = [&](const SweepAxis& other) { return shares_a_key(other, axis); };
  auto place = std::ranges::find_if(axes, shares) - axes.begin();
  std::erase_if(axes, shares);
  axes.insert(axes.begin() + place, std::move(axis));
}

std::vector<Combination> SweepPlan::combinations() const {
  check_axes(*this);
  if (!(ladder.threshold >= 0)) {
    throw Error("threshold: expected 0 or more bits per character, got {}", ladder.threshold);
  }
  std::vector<Settings> grid{{}};
  for (const SweepAxis& axis : axes) {
    std::vector<Settings> longer;
    for (const Settings& before : grid) {
      for (const Settings& alternative : axis) {
        longer.push_back(before);
        longer.back().insert(longer.back().end(), alternative.begin(), alternative.end());
      }
    }
    grid = std::move(longer);
  }
  std::vector<Combination> result;
  std::set<std::string> names;
  for (const Settings& settings : grid) {
    try {
      result.push_back(combine(*this, settings));
    } catch (const Error& error) {
      throw Error("{}{}{}", to_string(settings), settings.empty() ? "" : ": ", error.what());
    }
    if (!names.insert(result.back().folder_name(0)).second) {
      throw Error("vary: expected different alternatives, got '{}' twice", to_string(settings));
    }
  }
  return result;
}

std::vector<std::string> SweepPlan::swept_keys() const {
  std::vector<std::string> keys;
  for (const SweepAxis& axis : axes) {
    for (const std::string& key : keys_of(axis.front())) {
      if (key != kLadderKey) keys.push_back(key);
    }
  }
  return keys;
}

}  // namespace sigma1
