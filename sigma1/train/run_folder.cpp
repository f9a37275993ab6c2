#include "sigma1/train/run_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sigma1/base/error.h"
#include "sigma1/base/file.h"

namespace sigma1 {

namespace fs = std::filesystem;

fs::path config_path(const fs::path& folder) { return folder / "config.json"; }
fs::path checkpoint_folder(const fs::path& folder) { return folder / "checkpoints"; }

bool holds_run(const fs::path& folder) { return fs::exists(config_path(folder)); }

TrainConfig run_config(const fs::path& folder) {
  return TrainConfig::from_file(config_path(folder).string());
}

void check_folder(const fs::path& folder, bool resume) {
  bool there = holds_run(folder);
  if (there && !resume) {
    throw Error("{}: holds a run already; --resume goes on with it, or choose another folder",
                folder.string());
  }
  if (!there && resume) {
    throw Error("{}: expected a run to resume, and there is none", folder.string());
  }
}

void make_folder(const fs::path& folder) {
  std::error_code failure;
  fs::create_directories(folder, failure);
  if (failure) throw Error("{}: cannot be made: {}", folder.string(), failure.message());
}

// Where a file system knows no locks there is nothing better to do than to go on.
FolderLock::FolderLock(const fs::path& folder)
    : file_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (file_ < 0 || ::flock(file_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(file_);
  throw Error("{}: expected a folder in which nobody trains, got one that another process is using",
              folder.string());
}

FolderLock::~FolderLock() {
  if (file_ >= 0) ::close(file_);
}

void check_writable(const fs::path& folder) {
  make_folder(folder);
  // Named so that a later checkpoint removes it, should the program end just here.
  fs::path trial = folder / "step-trial.part";
  write_file(trial.string(), "trial");
  fs::remove(trial);
}

void check_room(const fs::path& folder, int64_t checkpoints, int64_t bytes_of_each) {
  std::error_code unknown;
  fs::space_info space = fs::space(folder, unknown);
  auto megabytes = [](auto bytes) { return static_cast<double>(bytes) / 1e6; };
  double needed = megabytes(bytes_of_each) * static_cast<double>(checkpoints);
  if (unknown || megabytes(space.available) >= needed) return;
  throw Error(
      "{}: expected {:.1f} MB of free space for {} checkpoints of {:.1f} MB at once, got {:.1f} "
      "MB; "
      "a smaller keep needs less",
      folder.string(), needed, checkpoints, megabytes(bytes_of_each), megabytes(space.available));
}

int64_t checkpoint_interval(const TrainConfig& config) {
  return config.checkpoint_every > 0 ? config.checkpoint_every
                                     : config.interval(config.evaluate_every);
}

int64_t checkpoints_at_once(const TrainConfig& config) {
  int64_t every = checkpoint_interval(config);
  return std::min(config.keep_checkpoints, (config.steps - 1) / every) + 1;
}

}  // namespace sigma1
