#include "tools/sigma1/bench_peer.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"

namespace sigma1 {
namespace {

using Json = nlohmann::json;

// As a word of a shell's command.
std::string shell_word(const std::string& text) {
  std::string result = "'";
  for (char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

// What a command prints; its complaints go where ours do.
std::string output_of(const std::string& command) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) throw Error("--peer: `{}` cannot be started", command);
  std::string text;
  std::array<char, 4096> piece{};
  for (size_t n; (n = std::fread(piece.data(), 1, piece.size(), pipe.get())) > 0;) {
    text.append(piece.data(), n);
  }
  return text;
}

std::string find_script(const std::string& asked, const TrainConfig& config) {
  namespace fs = std::filesystem;
  fs::path in_tree = fs::path("bench/peer") / (config.model + "_torch.py");
  std::vector<fs::path> places{asked};
  if (asked.empty()) places = {in_tree, SIGMA1_SOURCE_FOLDER / in_tree};
  for (const fs::path& place : places) {
    if (fs::exists(place)) return place.string();
  }
  throw Error("--peer: {} was not found; --peer-script says where PyTorch's {} is",
              places.front().string(), config.model);
}

std::string peer_command(const std::string& script, const BenchModel& model,
                         const TrainConfig& config, const std::string& device) {
  std::string command = fmt::format("python3 {} --json -", shell_word(script));
  if (config.model == "char_lm") {
    command += fmt::format(" --context {}", shell_word(model.context));
    if (model.depth > 0) command += fmt::format(" --depth {}", model.depth);
    return command;
  }
  ModelConfig size = config.size.resolved();
  command += fmt::format(
      " --depth {} --width {} --heads {} --batch {} --time {} --vocabulary {} --optimiser {}",
      size.depth, size.width, size.heads, size.batch, size.time, model.vocabulary,
      shell_word(config.optimiser));
  if (config.model == "bert") {
    command += fmt::format(" --ffn {} --positions {} --predictions {}", size.hidden, size.positions,
                           size.predictions);
  } else if (config.recompute == "blocks") {
    command += " --recompute blocks";
  }
  return device == "cpu" ? command + " --device cpu" : command;
}

const PeerRow* best_of(const std::vector<PeerRow>& rows, const std::string& context,
                       const std::vector<std::string>& precisions, bool same_model) {
  const PeerRow* best = nullptr;
  for (const PeerRow& row : rows) {
    bool fits = row.context == context && row.same_model == same_model &&
                std::ranges::find(precisions, row.precision) != precisions.end();
    if (fits && (best == nullptr || row.ms < best->ms)) best = &row;
  }
  return best;
}

}  // namespace

std::vector<PeerRow> parse_peer(std::string_view json, const std::string& origin) {
  Json list = Json::parse(json, nullptr, false);
  if (list.is_object() && list.contains("error")) {
    throw Error("--peer: {}", list.value("error", std::string("it failed")));
  }
  if (!list.is_array()) throw Error("{}: expected a JSON list of times, one for each mode", origin);
  std::vector<PeerRow> rows;
  try {
    for (const Json& row : list) {
      if (row.contains("failed")) continue;
      rows.push_back({.context = row.at("context"),
                      .variant = row.at("variant"),
                      .precision = row.at("precision"),
                      .mode = row.at("mode"),
                      .same_model = row.value("same_model", true),
                      .ms = row.at("ms"),
                      .gigabytes = row.value("gigabytes", 0.0)});
    }
  } catch (const Json::exception&) {
    throw Error("{}: expected rows of context, variant, precision, mode and ms", origin);
  }
  return rows;
}

std::vector<PeerRow> peer_rows(const std::string& file, const std::string& script,
                               const BenchModel& model, const std::string& device) {
  if (!file.empty()) return parse_peer(read_file(file), file);
  const TrainConfig config = bench_config(model, {"", "none", "fp32"});
  std::string path = find_script(script, config);
  if (std::system("command -v python3 >/dev/null 2>&1") != 0) {  // NOLINT: no other thread runs
    throw Error("--peer: python3 was not found; it runs {}", path);
  }
  return parse_peer(output_of(peer_command(path, model, config, device)), path);
}

std::vector<BenchRow> peer_ratios(const std::vector<BenchTime>& ours,
                                  const std::vector<PeerRow>& peer, const std::string& context) {
  struct Rival {
    std::string setting;
    std::vector<std::string> precisions;
    bool same_model;
  };
  const std::vector<std::string> half{"fp16", "bf16", "bf16-all"};
  std::vector<BenchRow> rows;
  for (const Rival& rival : {Rival{"unit fp32", {"fp32"}, true},
                             {"unit fp32", {"tf32"}, true},
                             {"unit bf16", half, true},
                             {"unit fp16", half, true},
                             {"unit fp8", half, true},
                             {"unit fp16", half, false},
                             {"unit fp8", half, false}}) {
    auto own = std::ranges::find(ours, rival.setting, &BenchTime::setting);
    const PeerRow* best = best_of(peer, context, rival.precisions, rival.same_model);
    if (own == ours.end() || best == nullptr) continue;
    rows.push_back(
        {fmt::format("{} / PyTorch {}, {}{}, {}", own->setting, best->precision, best->variant,
                     best->same_model ? "" : " (a lighter model)", best->mode),
         own->ms, best->ms});
  }
  return rows;
}

}  // namespace sigma1
