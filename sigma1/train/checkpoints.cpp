#include "sigma1/train/checkpoints.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "sigma1/base/error.h"

namespace sigma1 {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kEnding = ".safetensors";

std::optional<int64_t> parse_step(std::string_view text) {
  int64_t step = 0;
  auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), step);
  bool whole = failed == std::errc() && end == text.data() + text.size() && step >= 0;
  return whole ? std::optional(step) : std::nullopt;
}

// Empty for a file that no checkpoint of ours is named like.
std::optional<int64_t> step_of(const fs::path& path) {
  std::string name = path.filename();
  if (name.size() <= kPrefix.size() + kEnding.size() || !name.starts_with(kPrefix) ||
      !name.ends_with(kEnding))
    return std::nullopt;
  auto step = parse_step(
      std::string_view(name).substr(kPrefix.size(), name.size() - kPrefix.size() - kEnding.size()));
  // Only the one way that a step is written, so that no two files have the same step.
  return step && checkpoint_path("", *step) == name ? step : std::nullopt;
}

bool is_leftover(const fs::path& path) {
  std::string name = path.filename();
  return name.starts_with(kPrefix) && name.ends_with(".part");
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code cause;
  for (fs::directory_iterator entry(folder, cause), end; !cause && entry != end;
       entry.increment(cause))
    files.push_back(entry->path());
  if (cause) throw Error("cannot read the folder {}: {}", folder.string(), cause.message());
  return files;
}

using ByStep = std::map<int64_t, fs::path, std::greater<>>;  // newest first

ByStep checkpoints_in(const fs::path& folder) {
  ByStep found;
  for (const fs::path& path : files_in(folder))
    if (auto step = step_of(path)) found[*step] = path;
  return found;
}

void remove_file(const fs::path& path) {
  std::error_code cause;
  fs::remove(path, cause);
  if (cause) throw Error("cannot remove {}: {}", path.string(), cause.message());
}

}  // namespace

fs::path checkpoint_path(const fs::path& folder, int64_t step) {
  return folder / fmt::format("{}{:08}{}", kPrefix, step, kEnding);
}

void save_checkpoint(const fs::path& folder, int64_t step, std::span<const StoredTensor> tensors,
                     const Metadata& metadata, int keep) {
  if (step < 0 || keep < 1) throw Bug("a checkpoint of step {} where {} are kept", step, keep);
  std::error_code cause;
  fs::create_directories(folder, cause);
  if (cause) throw Error("cannot make the folder {}: {}", folder.string(), cause.message());
  Metadata with_step = metadata;
  with_step["step"] = std::to_string(step);
  write_safetensors(checkpoint_path(folder, step), tensors, with_step);

  int kept = 0;
  for (const auto& [other, path] : checkpoints_in(folder))
    if (other > step || ++kept > keep) remove_file(path);
  for (const fs::path& path : files_in(folder))
    if (is_leftover(path)) remove_file(path);
}

Checkpoint load_checkpoint(const fs::path& path) {
  SafetensorsFile file(path);
  auto entry = file.metadata().find("step");
  auto step = entry == file.metadata().end() ? std::nullopt : parse_step(entry->second);
  if (!step) throw Error("{}: expected a checkpoint, got a file without its step", path.string());
  if (auto named = step_of(path); named && *named != *step)
    throw Error("{}: expected step {} by its name, got step {}", path.string(), *named, *step);
  return {*step, std::move(file), {}};
}

bool has_checkpoint(const fs::path& folder) {
  return fs::exists(folder) && !checkpoints_in(folder).empty();
}

Checkpoint latest_checkpoint(const fs::path& folder) {
  std::vector<std::string> warnings;
  for (const auto& [step, path] : checkpoints_in(folder)) {
    try {
      Checkpoint found = load_checkpoint(path);
      found.warnings = std::move(warnings);
      return found;
    } catch (const Error& broken) {
      warnings.emplace_back(broken.what());
    }
  }
  if (warnings.empty()) throw Error("expected a checkpoint in {}, got none", folder.string());
  throw Error("expected a whole checkpoint in {}, got {}", folder.string(),
              fmt::join(warnings, "; "));
}

Checkpoint find_checkpoint(const std::filesystem::path& path) {
  if (!std::filesystem::is_directory(path)) return load_checkpoint(path);
  std::filesystem::path inner = path / "checkpoints";
  return latest_checkpoint(std::filesystem::exists(inner) ? inner : path);
}

}  // namespace sigma1
